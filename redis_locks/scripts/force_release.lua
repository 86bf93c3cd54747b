-- End holds of a lock from outside and hand it on. Their fencing tokens are overtaken, even if
-- nobody follows. Safe to repeat within a minute.
--
-- KEYS: index lock
-- ARGV: token, of this force-release
--   2... the tokens of the holds
-- Reply: "token fence ended..."  the tokens that held, and a fencing token above all that the lock
--                                gave out before; the next holder's is higher. None held: "token 0"

--include _prelude
--include _lock
--include _modes
--include _queue

local name, done = all[1], DONE .. token
local earlier = call("GET", done)
if earlier then
  return token .. " " .. earlier
end

local state = state_of(name)
local fence = text(next_after(state.fence))
local ended = {}
for i = 2, #ARGV do
  if let_go(name, ARGV[i]) then
    ended[#ended + 1] = ARGV[i]
  end
end
if state.holder and not exclusive(name) then
  free(state) -- its lease has ended; should its holder come back, it is not to count again
end
save_cuts(state)
local outcome = "0"
if #ended > 0 then
  outcome = fence .. " " .. table.concat(ended, " ")
  state.fence, state.changed = tonumber(fence), true
  save(state)
  -- The reply may be lost; who asks again must learn what was done.
  call("SET", done, outcome, "PX", DONE_KEPT_MS)
end
settle(all)
return token .. " " .. outcome
