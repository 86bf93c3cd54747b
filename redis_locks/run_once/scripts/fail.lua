-- Write down that an attempt failed, with its error, and end the hold. Safe to repeat.
--
-- KEYS: index lock
-- ARGV: token
--   2 number of the attempt
--   3 how long that is remembered, ms
--   4 the error, one line for people
-- Reply: "token 1" failed; "token 0" the token does not hold the lock (any more):
-- nothing was written

--include _job

local number, kept, failure = ARGV[2], ARGV[3], ARGV[4]

return token .. (finish("failed", number, kept, failure) and " 1" or " 0")
