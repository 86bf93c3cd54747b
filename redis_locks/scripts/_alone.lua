-- First of acquire, release and commit, before the prelude is set up: the ways of nearly every lock, or set of
-- locks, with one exclusive holder. Each of the parts up to the prelude goes on where the one before ended,
-- as straight-line code: a function that shares variables costs some us where the processor does not expect
-- it. The rest of each script would come to the same end; a test holds them against each other.

local call = redis.call
local index, token = KEYS[1], ARGV[1]
local tag = string.sub(index, 1, -6)
local QUEUE, CLAIMS = tag .. "queue:", tag .. "claims:"
local names, size = {}, #KEYS - 1
for place = 1, size do
  names[place] = string.sub(KEYS[place + 1], #tag + 8)
end
