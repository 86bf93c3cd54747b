-- Read a part of the figures of one bucket. Changes nothing.
-- They come in one string, which a client reads many times faster than a list.
-- A figure may come in two parts.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 how long the bucket is, in seconds
--   3 its number, or -1 for that of this moment
--   4 where to go on: 0, or what the part before said
-- Reply: {now in ms, number, where to go on (0: it was the last part), figures and counts in turn
-- with a NUL between each two}

--include _stats

local AT_ONCE = 500

local number = ARGV[3] == "-1" and text(number_of(ARGV[2])) or ARGV[3]
local found = redis.call("HSCAN", bucket(ARGV[2], number), ARGV[4], "COUNT", AT_ONCE)
return { text(clock()), number, found[1], table.concat(found[2], "\0") }
