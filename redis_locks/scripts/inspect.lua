-- Read one lock: its holders and its queue in order. Changes nothing.
--
-- KEYS: holders queue claims fence index
-- ARGV: token name
--   3 most waiters to return
-- Reply: {now ms, number of waiters, {token, lease end ms, claim, ...}, {token, claim, ...}}

local most = tonumber(ARGV[3])
local held, line = {}, {}
local members = redis.call("ZRANGEBYSCORE", holders, "(" .. text(now), "+inf", "WITHSCORES")
for i = 1, #members, 2 do
  held[#held + 1] = members[i]
  held[#held + 1] = text(tonumber(members[i + 1]))
  held[#held + 1] = redis.call("HGET", claims, members[i]) or ""
end
if most > 0 then
  for _, waiter in ipairs(redis.call("ZRANGE", queue, 0, most - 1)) do
    line[#line + 1] = waiter
    line[#line + 1] = redis.call("HGET", claims, waiter) or ""
  end
end
return { text(now), redis.call("ZCARD", queue), held, line }
