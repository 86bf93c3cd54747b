-- End an exclusive hold, but keep its locks closed until some time after the grant. Until then a
-- holder has them that nobody renews. It is no thread or task, so no wait for it is part of a
-- deadlock. Of a set, the locks that the token does not hold any more stay as they are. Safe to
-- repeat.
--
-- KEYS: index lock...
-- ARGV: token
--   2 the token that keeps them closed
--   3 for how long after the grant, ms
--   4 who, for people
-- Reply: "token 1" done; "token 0" the token does not hold all of the locks (any more)

--include _prelude
--include _lock
--include _modes
--include _queue

local closer, at_least, who = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local held, done, since = {}, true, clock()
for _, name in ipairs(all) do
  local holder, claim = exclusive(name)
  done = done and holder == closer
  if holder == token then
    held[#held + 1] = name
    since = tonumber(string.match(claim, "^%d+ (%d+)"))
  end
end
if done then
  return token .. " 1" -- the reply to an earlier try was lost
end

local ends = since + at_least
for _, name in ipairs(all) do
  let_go(name, token)
  save_cuts(state_of(name))
end
if #held > 0 and ends > clock() then
  list(held, ends)
  for _, name in ipairs(held) do
    local state = state_of(name)
    local fence = text(state.fence)
    local claim = claim_of(fence, text(now), "exclusive", "0", "-", "0", #all)
    hold_alone(state, closer, fence, ends, claim, who)
    local waiter, its = first_in_line(state)
    if waiter then
      -- It knows of the lease's end only, which is later: it is to ask again.
      tell(select(5, string.match(its, CLAIM)), waiter .. " -2 " .. text(now))
    end
    save(state)
  end
else
  settle(all)
end
return token .. (#held == #all and " 1" or " 0")
