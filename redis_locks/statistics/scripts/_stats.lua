-- Start of every script of the statistics.
--
-- KEYS: index, always of partition 0, as all statistics stand beside it:
--   P{0}:stats:SECONDS:N     HASH  "METRIC NAME" -> count, of the Nth SECONDS since 1970
--   P{0}:stats:frequent:NAME LIST  "at_ms JSON" of the lock's latest acquires, latest first
--   P{0}:stats:notable:NAME  LIST  the same of what seldom happens, such as a loss
--   P{0}:stats:ended:NAME    LIST  the same of the ends of holds, if the setting HISTORY keeps them
--   P{0}:stats:circles:      LIST  the same of deadlocks, of any locks, for an hour
--   P{0}:stats:sent:PROCESS  STRING number of the latest packet of a process,
--                            which may send it again
--   P{0}:stats:noted         ZSET  name -> when it was noted last (ms), of all that have lists
--
-- Invariants, true before and after every script:
--   1. Every key has an expiry.
--   2. There are lists of MOST_NOTED names at most, and little more than MOST_FIGURES in a HASH:
--      memory has a bound, however many names and processes there are.

--include _prelude
--include _keys

local STATS = tag .. "stats:"

-- The list of notes of a lock; kept is "frequent", "notable" or "ended".
-- That of deadlocks, "circles", has no name.
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

local function number_of(seconds, age_ms)
  return math.floor((clock() - (age_ms or 0)) / 1000 / seconds)
end

local function bucket(seconds, number)
  return STATS .. seconds .. ":" .. text(number)
end

local SENT_KEPT_MS = 3600000

-- Whether a packet of a process has come before: its reply was lost.
local function has_come(process, number)
  local key = STATS .. "sent:" .. process
  if tonumber(redis.call("GET", key) or 0) >= tonumber(number) then
    return true
  end
  redis.call("SET", key, number, "PX", SENT_KEPT_MS)
  return false
end
