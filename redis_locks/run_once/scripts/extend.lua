-- Make an attempt's lease last at least so long from now, and the record outlive it.
-- Safe to repeat.
--
-- KEYS: index lock
-- ARGV: token
--   2 lease, ms
-- Reply: "token 1 now ends"  now and the end of the lease in ms
--        "token 0"           the token does not hold the lock (any more)

--include _job

local lease = tonumber(ARGV[2])

if not held_until(name) then
  return token .. " 0"
end
local ends = lengthen(all, clock() + lease)
if state == "running" then
  keep_record(ends, tonumber(redis.call("HGET", record, "kept")))
end
return token .. " 1 " .. text(now) .. " " .. text(ends)
