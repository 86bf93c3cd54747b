-- Raise a hold's fencing token, and make its lease last at least so long from now. Safe to repeat.
-- A hold of locks of several partitions has one such token, above all that any of them gave out.
--
-- KEYS: index lock...
-- ARGV: token
--   2 lease, ms
--   3 fencing token; a higher one of the lock stays
-- Reply: "token 1 now ends"  now and the end of the lease in ms
--        "token 0"           the token does not hold all of the locks (any more)

--include _prelude
--include _lock
--include _modes

local fence = ARGV[3]

local function raised(claim)
  local own, rest = string.match(claim, "^(%d+)(.*)$")
  return text(math.max(tonumber(own), tonumber(fence))) .. rest
end

for _, name in ipairs(all) do
  if not held_until(name) then
    return token .. " 0"
  end
end
for _, name in ipairs(all) do
  local state = state_of(name)
  if state.fence < tonumber(fence) then
    state.fence, state.changed = tonumber(fence), true
  end
  if exclusive(name) then
    state.claim = raised(state.claim)
    put(state, "claim", state.claim)
  else
    put(state, token, raised(sharer_claim(name, token)))
  end
  save(state)
end
local ends = lengthen(all, clock() + tonumber(ARGV[2]))
return token .. " 1 " .. text(now) .. " " .. text(ends)
