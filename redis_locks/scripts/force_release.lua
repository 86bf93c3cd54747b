-- End holds of a lock from outside and hand it on. Their fencing tokens are overtaken, even if
-- nobody follows. Safe to repeat within a minute.
--
-- KEYS: index holder
-- ARGV: token, of this force-release
--   2... the tokens of the holds
-- Reply: "token fence ended..."  the tokens that held, and a fencing token above all that the lock
--                                gave out before; the next holder's is higher. None held: "token 0"

local name, done = all[1], DONE .. token
local earlier = call("GET", done)
if earlier then
  return token .. " " .. earlier
end

clock()
local fence = text(next_after(last_fence(name)))
local ended = {}
for i = 2, #ARGV do
  local holder = ARGV[i]
  -- Before anything is set: a server out of memory lets a script go on that has freed some.
  if exclusive(name) == holder then
    call("DEL", HOLDER .. name)
    ended[#ended + 1] = holder
  elseif shares(name, holder) then
    unshare(name, { holder })
    ended[#ended + 1] = holder
  end
end
local outcome = "0"
if #ended > 0 then
  outcome = fence .. " " .. table.concat(ended, " ")
  call("SET", FENCE .. name, fence, "PX", FENCE_KEPT_MS)
  -- The reply may be lost; who asks again must learn what was done.
  call("SET", done, outcome, "PX", DONE_KEPT_MS)
end
settle(all)
return token .. " " .. outcome
