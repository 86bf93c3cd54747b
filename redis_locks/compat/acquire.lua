-- Take the lock, or stand in the queue for it. Safe to repeat: a waiter keeps its hold or place.
--
-- KEYS: lock queue claims grant
-- ARGV: token
--   2 waiter
--   3 timeout, ms: empty for none
--   4 channel on which the caller listens, or "-"
--   5 stay: 1 join the queue, 0 leave it
-- Reply: 0 granted, n place in the queue beginning with 1, -1 not granted and not in the queue

--include _prelude

local waiter, timeout, channel, stay = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local function take()
  if timeout == "" then
    redis.call("SET", lock, token)
  else
    redis.call("SET", lock, token, "PX", timeout)
  end
  if token ~= waiter then
    redis.call("SET", grant, waiter, "PX", CONFIRM_MS)
  end
  return 0
end

local holder = redis.pcall("GET", lock)
if type(holder) == "table" then
  if string.sub(holder.err, 1, 9) ~= "WRONGTYPE" then
    return holder
  end
  -- Something that is no lock is in the way, as it is for redis-py's.
  holder = ""
end

-- Handed to the caller, or the reply to an earlier try was lost. A token of the user's own
-- may be somebody else's too.
if holder == token and (token == waiter or redis.call("GET", grant) == waiter) then
  return take()
end

local first, rest
if not holder then
  first, rest = hand_off(waiter)
  if first == waiter or not (first or rest) then
    return take()
  end
end

if stay == "0" then
  if redis.call("HDEL", claims, waiter) == 1 then
    redis.call("ZREM", queue, waiter)
  end
  if rest then
    leave_rest()
  end
  return -1
end

local ahead = redis.call("ZRANK", queue, waiter)
if not ahead then
  local last = redis.call("ZRANGE", queue, -1, -1, "WITHSCORES")[2] or 0
  redis.call("ZADD", queue, last + 1, waiter)
  ahead = redis.call("ZRANK", queue, waiter)
end
redis.call("HSET", claims, waiter, channel .. " " .. token)
redis.call("PEXPIRE", queue, WAITER_KEPT_MS)
redis.call("PEXPIRE", claims, WAITER_KEPT_MS)
if rest then
  leave_rest(waiter)
end
return ahead + 1
