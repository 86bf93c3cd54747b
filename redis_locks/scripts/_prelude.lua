-- Start of every script: the partition, the caller's token, and the form of what is written. It
-- calls nothing and defines no function: usual ways come right after it, see `acquire` and `_end`.
--
-- KEYS: index, then the hash of each lock of the set (most sets have one lock). All keys of a
-- partition share one hash tag, P{n}, so a script spells the others itself. ARGV: token first.
-- `_lock.lua` says what is in the keys.

local PROTOCOL = "3"

-- How the texts of a lock's `state` and `line` are read.
local STATE = "^(%S+) (%d+) (%d+) (%d+) (%d+)$"
local LINE = "^(%-?%d+) (%-?%d+) (%d+)$"

local FENCE_KEPT_MS = 3600000
-- How much later a key expires than it must, so that its expiry is seldom moved.
local EXPIRY_SLACK_MS = 600000
-- A waiter says every 6 s that it is there; after three missed turns it may be forgotten.
local WAITER_KEPT_MS = 18000
-- So long after it came, a waiter may have written down what it waits for: see `detect`.
local NOTED_AFTER_MS = 5
local DONE_KEPT_MS = 60000
-- Texts of up to so many bytes take half the memory.
local SHORT = 64

-- Keys that usual ways name, behind the partition's tag. `_keys` has the others.
local DONE_KEY, LATE_KEY, SET_KEY, WAITS_KEY = "done:", "late:", "set:", "waits"

local call = redis.call
local index, token = KEYS[1], ARGV[1]
-- The server's clock, once it was read: a script sees one moment.
local now, now_us
