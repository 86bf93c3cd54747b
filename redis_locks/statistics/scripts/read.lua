-- Read the figures of one bucket. Changes nothing.
-- They come in one string, which a client reads many times faster than a list.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 how long the bucket is, in seconds
--   3 its number, or -1 for that of this moment
-- Reply: {now in ms, number, figures and counts in turn with a NUL between each two}

--include _stats

local number = ARGV[3] == "-1" and text(number_of(ARGV[2])) or ARGV[3]
local found = redis.call("HGETALL", bucket(ARGV[2], number))
return { text(clock()), number, table.concat(found, "\0") }
