-- Write down that the job is done, with its result, and end the hold. Safe to repeat.
--
-- KEYS: index lock
-- ARGV: token
--   2 number of the attempt
--   3 how long that is remembered, ms
--   4 result, JSON, or empty if none is stored
-- Reply: "token 1" done; "token 0" the token does not hold the lock (any more): nothing was written

--include _job

local number, kept, result = ARGV[2], ARGV[3], ARGV[4]

return token .. (finish("done", number, kept, result) and " 1" or " 0")
