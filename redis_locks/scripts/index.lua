-- List the names of the locks that somebody holds or waits for. Changes nothing.
-- It may name a lock that has just become free; `inspect` tells.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 most names to return, -1 for all
-- Reply: {name, ...}

--include _prelude

local most = ARGV[2]
return call("ZRANGEBYSCORE", index, text(clock()), "+inf", "LIMIT", 0, most)
