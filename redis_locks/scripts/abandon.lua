-- Leave the queue; a grant that crossed the leaving on its way is handed on.
--
-- KEYS: holders queue claims fence index
-- ARGV: token name
-- Reply: {token, now ms, lease end of the holder ms or 0, claim of the holder or ""}

redis.call("ZREM", queue, token)
redis.call("ZREM", holders, token)
redis.call("HDEL", claims, token)
settle()
local holder, ends = living_holder()
if not holder then
  return { token, text(now), "0", "" }
end
return { token, text(now), text(ends), redis.call("HGET", claims, holder) or "" }
