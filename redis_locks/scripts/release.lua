-- End a hold and hand the lock to the first living waiter.
--
-- KEYS: holders queue claims fence index
-- ARGV: token name
-- Reply: {token, 1} released; {token, 0} the token does not hold the lock (any more)

local ends = redis.call("ZSCORE", holders, token)
if ends then
  redis.call("ZREM", holders, token)
  redis.call("HDEL", claims, token)
end
settle()
return { token, ends and tonumber(ends) > now and 1 or 0 }
