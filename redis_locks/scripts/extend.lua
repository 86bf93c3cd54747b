-- Make a hold's lease last at least so long from now; never shortens it. Safe to repeat.
--
-- KEYS: holders queue claims fence index
-- ARGV: token name
--   3 lease, ms
-- Reply: {token, 1, now ms, lease end ms}; {token, 0} the token does not hold the lock

local lease = tonumber(ARGV[3])
local ends = tonumber(redis.call("ZSCORE", holders, token) or 0)
if ends <= now then
  return { token, 0 }
end
if now + lease > ends then
  ends = now + lease
  redis.call("ZADD", holders, text(ends), token)
  keep_until(holders, ends)
  keep_until(claims, ends)
  keep_index(ends)
end
return { token, 1, text(now), text(ends) }
