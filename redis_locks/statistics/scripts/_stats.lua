-- Start of every script of the statistics.
--
-- KEYS: index, always of partition 0, as all statistics stand beside it:
--   P{0}:stats:SECONDS:N     HASH  "METRIC NAME" -> count, of the Nth SECONDS since 1970
--   P{0}:stats:frequent:NAME LIST  "at_ms JSON" of the lock's latest acquires, latest first
--   P{0}:stats:notable:NAME  LIST  the same of what seldom happens, such as a loss
--   P{0}:stats:ended:NAME    LIST  the same of the ends of holds, if the setting HISTORY keeps them
--   P{0}:stats:circles:      LIST  the same of deadlocks, of any locks, for an hour
--   P{0}:stats:noted         ZSET  name -> when it was noted last (ms), of all that have lists
--
-- Invariants, true before and after every script:
--   1. Every key has an expiry.
--   2. There are lists of MOST_NOTED names at most, and little more than MOST_FIGURES in a HASH:
--      memory has a bound, however many names and processes there are.

--include _prelude
--include _keys

local STATS = tag .. "stats:"

-- The list of notes of a lock; kept is "frequent", "notable" or "ended". That of deadlocks, "circles", has no name.
local function list_of(kept, name)
  return STATS .. kept .. ":" .. name
end

local NOTED = STATS .. "noted"

-- Seconds that a bucket is long -> ms that it is kept: an hour of minutes, a day of quarters.
local KEPT_MS = { ["60"] = 3720000, ["900"] = 88200000 }
local NOTES_KEPT_MS, CIRCLES_KEPT_MS = 86400000, 3600000
local MOST_NOTES = { notable = 50, frequent = 20, circles = 20 }
local MOST_NOTED = 2000
local MOST_FIGURES = 5000

local function number_of(seconds)
  return math.floor(clock() / 1000 / seconds)
end

local function bucket(seconds, number)
  return STATS .. seconds .. ":" .. text(number)
end
