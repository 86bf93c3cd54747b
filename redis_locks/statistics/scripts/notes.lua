-- Read what was noted of a lock. Changes nothing.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 name
--   3... which lists: "frequent", "notable", "ended"; without a name, "circles"
-- Reply: texts "at_ms JSON", in no order

--include _stats

local found = {}
for i = 3, #ARGV do
  for _, note in ipairs(redis.call("LRANGE", list_of(ARGV[i], ARGV[2]), 0, -1)) do
    found[#found + 1] = note
  end
end
return found
