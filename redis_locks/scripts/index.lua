-- List the names of the locks that somebody holds or waits for. Changes nothing.
-- It may name a lock that has just become free; `inspect` tells.
--
-- KEYS: holder queue claims fence index
-- ARGV: token name (neither is used)
--   3 most names to return, -1 for all
-- Reply: {name, ...}

local most = ARGV[3]
return redis.call("ZRANGEBYSCORE", index, text(now), "+inf", "LIMIT", 0, most)
