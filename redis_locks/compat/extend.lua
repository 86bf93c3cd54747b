-- Change when a hold ends, but never end it: a time that is over would delete the key,
-- and let the next caller in.
--
-- KEYS: lock queue claims grant
-- ARGV: token
--   2 time to add, or to set, ms
--   3 replace: 1 set it, 0 add it to what is left
-- Reply: 1 done; 0 the token does not hold the lock (any more), or the lock has no timeout;
-- -1 nothing would be left

--include _prelude

local time, replace = tonumber(ARGV[2]), ARGV[3]

if redis.call("GET", lock) ~= token then
  return 0
end
local left = redis.call("PTTL", lock)
if left < 0 then
  return 0
end
if replace == "0" then
  time = left + time
end
if time <= 0 then
  return -1
end
redis.call("PEXPIRE", lock, string.format("%.0f", time))
return 1
