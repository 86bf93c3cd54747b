-- Read what was noted of a lock. Changes nothing.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 name
-- Reply: texts "at_ms JSON", in no order

--include _stats

local found = redis.call("LRANGE", LISTS[1] .. ARGV[2], 0, -1)
for _, note in ipairs(redis.call("LRANGE", LISTS[2] .. ARGV[2], 0, -1)) do
  found[#found + 1] = note
end
return found
