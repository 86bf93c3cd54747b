-- Start of every script: the partition, the caller's token, the server's clock, and what is written in one place only.
--
-- KEYS: index, then the hash of each lock of the set (most sets have one lock). All keys of a
-- partition share one hash tag, P{n}, so a script spells the others itself. ARGV: token first.
-- `_lock.lua` says what is in the keys.

local PROTOCOL = "2"
local STATE = "^(%S+) (%d+) (%d+) (%d+) (%-?%d+) (%-?%d+) (%d+) (%d+)$"
local NEW_STATE = PROTOCOL .. " 0 0 0 1 0 0 0"

local FENCE_KEPT_MS = 3600000
-- How much later a key expires than it must, so that its expiry is seldom moved.
local EXPIRY_SLACK_MS = 600000
local INDEX_SLACK_MS = 60000
local DONE_KEPT_MS = 60000
local CANCELLED_KEPT_MS = 3600000
-- So many more fencing tokens belong to each grant: a holder of version 1.0.0rc1 may pass the lock on inside its
-- process. They must be out of use even if that dies.
local FENCE_RESERVED = 16
-- A waiter says every 6 s that it is there; after three missed turns it may be forgotten.
local WAITER_KEPT_MS = 18000
-- So long after it came, a waiter may have written down what it waits for: see `detect`.
local NOTED_AFTER_MS = 5
-- So many of what is over are forgotten at once: leases of sharers, and names in the index.
local MOST_FORGOTTEN = 100
-- Texts of up to so many bytes take half the memory.
local SHORT = 64

local call = redis.call
local index, token = KEYS[1], ARGV[1]
local tag = string.sub(index, 1, -6)
local LOCK, SHARERS, SET, DONE, LATE = tag .. "lock:", tag .. "sharers:", tag .. "set:", tag .. "done:", tag .. "late:"
local WAITS, LOOKS, ALERTS = tag .. "waits", tag .. "looks", tag .. "alerts"

-- The names of the locks, in the caller's order.
local all = {}
for place = 2, #KEYS do
  all[place - 1] = string.sub(KEYS[place], #LOCK + 1)
end

local now, now_us

-- The time in ms, read once: a script sees one moment.
local function clock()
  if not now then
    local time = call("TIME")
    now_us = time[1] * 1000000 + time[2]
    now = math.floor(now_us / 1000)
  end
  return now
end

-- A number of more than 14 digits as text; Lua writes shorter ones so by itself.
local function text(number)
  return string.format("%.0f", number)
end

-- List locks as held or waited for until `ends` at least.
local function list(locks, ends)
  if #locks == 1 then
    call("ZADD", index, "GT", ends, locks[1])
  else
    local scores = {}
    for place, name in ipairs(locks) do
      scores[2 * place - 1], scores[2 * place] = ends, name
    end
    call("ZADD", index, "GT", unpack(scores))
  end
  if call("PEXPIRETIME", index) < ends then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed. The member without a
    -- name, which is the first, keeps the key, and so its expiry, when no lock is listed.
    call("ZADD", index, 0, "")
    call("ZREMRANGEBYRANK", index, 1, math.min(call("ZCOUNT", index, "(0", clock() - 1), MOST_FORGOTTEN))
    -- If more are over, the next acquire comes here, too.
    local rest = call("ZCOUNT", index, "(0", clock() - 1) > 0
    call("PEXPIREAT", index, ends + (rest and 0 or INDEX_SLACK_MS))
  end
end

-- Write a lock's state and other fields. Its key lives until an hour after `ends` at least; returns when it goes.
local function write(key, ends, shared_until, fence, expires, first, last, waiting, sharers, ...)
  local moved = expires < ends + FENCE_KEPT_MS
  if moved then
    expires = ends + FENCE_KEPT_MS + EXPIRY_SLACK_MS
  end
  local state = PROTOCOL .. " " .. shared_until .. " " .. fence .. " " .. expires .. " " .. first .. " " .. last
  call("HSET", key, "state", state .. " " .. waiting .. " " .. sharers, ...)
  if moved then
    call("PEXPIREAT", key, expires)
  end
  return expires
end

-- Write the exclusive holder of a lock. `state` is what `STATE` matches, of which the places are changed already.
local function write_holder(key, state, fence, holder, ends, claim, who)
  local reserved, expires = text(fence + FENCE_RESERVED), tonumber(state[4])
  if #who > SHORT then
    write(key, ends, state[2], reserved, expires, state[5], state[6], state[7], state[8], "holder", holder .. " " .. ends,
      "claim", claim, "who", string.sub(who, 1, SHORT), "label", string.sub(who, SHORT + 1))
  else
    write(key, ends, state[2], reserved, expires, state[5], state[6], state[7], state[8], "holder", holder .. " " .. ends,
      "claim", claim, "who", who)
  end
end

-- Tell `listener`, and return how many heard it. Not to the listeners of replicas: one
-- that still listens to a server which was the primary before would believe in a grant that
-- nobody heard here, and that somebody else got then.
--
-- A listener with a plus at its end waits for the list of its turn, too, with what it wants to read then
-- behind that in its connection: so the server goes on there by itself, once this script has ended.
local function tell(listener, message)
  redis.set_repl(redis.REPL_NONE)
  -- The channel is in no partition, so the hash tag goes; on a cluster it stays, see `on_cluster`.
  local heard = call("PUBLISH", string.gsub(index, "{%d+}:index$", ":grants:") .. listener, message)
  if string.sub(listener, -1) == "+" then
    local waiter, fence = string.match(message, "^(%S+) (%S+)")
    local turn = tag .. "turn:" .. waiter
    -- Nothing depends on it: without, the waiter reads by itself a moment later.
    redis.pcall("RPUSH", turn, fence)
    redis.pcall("PEXPIRE", turn, 100)
  end
  redis.set_repl(redis.REPL_ALL)
  return heard
end
