-- Read one lock: its holder and its queue in order. Changes nothing.
--
-- KEYS: holder queue claims fence index
-- ARGV: token name (the token is not used)
--   3 most waiters to return
-- Reply: {now ms, number of waiters, {token, lease end ms, claim} or {}, {token, claim, ...}}

local most = tonumber(ARGV[3])
local held, line = {}, {}
local holder, claim = read_holder()
if holder then
  held = { holder, text(redis.call("PEXPIRETIME", holder_key)), claim }
end
if most > 0 then
  for _, waiter in ipairs(redis.call("LRANGE", queue, 0, most - 1)) do
    line[#line + 1] = waiter
    line[#line + 1] = redis.call("HGET", claims, waiter) or ""
  end
end
return { text(now), redis.call("LLEN", queue), held, line }
