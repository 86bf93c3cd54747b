-- Read one lock: its holders and its queue in order. Forgets sharers whose lease has ended.
--
-- KEYS: index holder
-- ARGV: token (not used)
--   2 most waiters to return, and most holders
-- Reply: {now ms, number of waiters, number of holders, {token, lease end ms, claim, ...}, {token, claim, ...}}

local most = tonumber(ARGV[2])
local name = all[1]
local held, line, count = {}, {}, 1
local holder, claim = exclusive(name)
if holder then
  held = { holder, text(call("PEXPIRETIME", HOLDER .. name)), claim }
else
  count = sharers(name)
  local found = call("ZRANGE", SHARERS .. name, 0, math.max(most, 1) - 1, "WITHSCORES")
  for i = 1, #found, 2 do
    held[#held + 1] = found[i]
    held[#held + 1] = found[i + 1]
    held[#held + 1] = call("HGET", CLAIMS .. name, found[i]) or ""
  end
end

-- The claim of a waiter, with the mode in which it wants this lock.
local function waiting(waiter)
  local claim = call("HGET", CLAIMS .. name, waiter) or ""
  local before, mode, after = string.match(claim, "^(%d+ %d+ )(intent:%d+:%S+)( .*)$")
  if not mode then
    return claim
  end
  local place = call("LPOS", SET .. waiter, name)
  return before .. mode_at(mode, (place or 0) + 1) .. after
end

if most > 0 then
  for _, waiter in ipairs(call("LRANGE", QUEUE .. name, 0, most - 1)) do
    line[#line + 1] = waiter
    line[#line + 1] = waiting(waiter)
  end
end
return { text(clock()), call("LLEN", QUEUE .. name), count, held, line }
