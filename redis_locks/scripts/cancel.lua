-- End a wait from outside, of all locks that it is for, and tell the waiter.
--
-- KEYS: index holder
-- ARGV: token, the waiter's
-- Reply: "token 1" ended; "token 0" the token does not wait for the lock (any more)

local name = all[1]
local claim = call("HGET", CLAIMS .. name, token) or ""
local _, _, _, _, listener, _, size = string.match(claim, CLAIM)
if string.sub(claim, 1, 2) ~= "0 " or not size then
  return token .. " 0"
end
local locks = wanted(name, token, tonumber(size)) or { name }
leave(locks, token)
settle(locks)
-- No fencing token is below 0.
tell(listener, token .. " -1 " .. text(clock()))
return token .. " 1"
