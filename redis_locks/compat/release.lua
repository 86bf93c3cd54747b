-- End a hold and hand the lock to the first living waiter.
--
-- KEYS: lock queue claims grant
-- ARGV: token
-- Reply: 1 released, 0 the token does not hold the lock (any more)

--include _prelude

if redis.call("GET", lock) ~= token then
  return 0
end
redis.call("DEL", lock, grant)
local _, rest = hand_off(nil)
if rest then
  leave_rest()
end
return 1
