-- Shared start of every script; the loader puts it before each file.
--
-- KEYS: index, then the holder key of each lock of the set (most sets have one lock). All keys of
-- a partition share one hash tag, P{n}, so the script spells the others itself:
--   P{n}:holder:NAME   STRING  "token claim" of the exclusive holder; expires with its lease
--   P{n}:sharers:NAME  ZSET    token -> end of lease (ms), of the holders that are not alone
--   P{n}:queue:NAME    LIST    tokens of the waiters in order
--   P{n}:claims:NAME   HASH    token of a waiter or sharer -> claim; mode -> number of sharers
--                              in it; "capacity" -> see `capacity_beside`
--   P{n}:fence:NAME    STRING  the last fencing token given out, or reserved with it
--   P{n}:set:TOKEN     LIST    the names a waiter wants all at once, if they are several
--   P{n}:turn:TOKEN    LIST    for a moment, what TOKEN was told, as its connection waits for that: see `tell`
--   P{n}:done:TOKEN    STRING  says for a minute what a commit, force-release or cancellation did
--   P{n}:waits         HASH    session -> what it waits for, of those that look for deadlocks, or were told to: see detect
--   P{n}:index         ZSET    name of a held or waited-for lock -> end of its last lease (ms)
-- ARGV, always first: token.
--
-- A claim is "fence since mode lease_ms listener wait size who": the fencing token (0 for a waiter),
-- holding or waiting since (ms), the connection that hears of a grant (see `channel_of`), for how
-- long a waiter waits at most (ms, 0 for ever), how many locks it wants at once, and text for people
-- with a tab between each two fields (see `bury` for the last one). A mode is "exclusive",
-- "shared", "permit:CAPACITY", "no_key", "key_share" or the intent of one, "intent:exclusive",
-- which says that locks below this one are held so. Of waiters only: "upgrade:TOKEN" (exclusive,
-- beside the shared hold TOKEN) and "intent:N:MODE", see `mode_at`.
--
-- Invariants, true before and after every script:
--   1. Any two holders may stand beside each other by the table `BESIDE`, and there are never
--      more permits than the smallest capacity among their claims.
--   2. A token holds, or stands once in queue with a claim, or neither; never both. Holders
--      and waiters of a set hold, or stand, in all its locks; but where it has an intent, a
--      waiter stands only as long as that lock is in its way.
--   3. The fencing tokens of one lock strictly grow while the clock does not step back an hour.
--   4. Nobody that listens stands first in queue though it could be granted: whoever makes room
--      grants in the same script. (A lease that ran out makes room without a script; the
--      first waiter runs one then.)
--   5. Every key has an expiry.
--
-- Redis freezes its clock while a script runs, so `clock()` and the expiry of keys agree.

local call = redis.call
local index, token = KEYS[1], ARGV[1]
local tag = string.sub(index, 1, -6)
local HOLDER, SHARERS, QUEUE = tag .. "holder:", tag .. "sharers:", tag .. "queue:"
local CLAIMS, FENCE, SET, DONE = tag .. "claims:", tag .. "fence:", tag .. "set:", tag .. "done:"
local WAITS = tag .. "waits"

local FENCE_KEPT_MS = 3600000
local DONE_KEPT_MS = 60000
-- So many more fencing tokens belong to each grant, for holds that pass on inside a process; they
-- must be out of use even if that dies.
local FENCE_RESERVED = 16
local INDEX_SLACK_MS = 60000
-- A waiter says every 6 s that it is there; after three missed turns its place may go. The
-- slack saves setting the expiry anew each time.
local WAITER_KEPT_MS = 18000
local WAITER_SLACK_MS = 4000
local NEXT_ASKS_MS = 1000

local CLAIM = "^(%d+) (%d+) (%S+) (%d+) (%S+) (%d+) (%d+) (.*)$"

local now, now_us

-- The time in ms; most releases need none.
local function clock()
  if not now then
    local time = call("TIME")
    now_us = time[1] * 1000000 + time[2]
    now = math.floor(now_us / 1000)
  end
  return now
end

local function text(number)
  return string.format("%.0f", number)
end

-- The exclusive holder's token and claim, or nil.
local function exclusive(name)
  local value = call("GET", HOLDER .. name)
  if not value then
    return nil
  end
  local space = string.find(value, " %d+ %d+ %S+ %d+ %S+ %d+ %d+ ")
  if not space then
    error({ err = "WRONGTYPE " .. HOLDER .. name .. " holds a string that is not ours" })
  end
  return string.sub(value, 1, space - 1), string.sub(value, space + 1)
end

-- The channel of a connection. Spelled here, as a claim that had it would take more memory. It is in
-- no partition, so the hash tag goes; on a cluster it stays, see `on_cluster`.
local function channel_of(listener)
  return string.gsub(index, "{%d+}:index$", ":grants:") .. listener
end

-- Tell `listener`, and return how many heard it. Not to the listeners of replicas: one
-- that still listens to a server which was the primary before would believe in a grant that
-- nobody heard here, and that somebody else got then.
--
-- A listener with a plus at its end waits for the list of its turn, too, with what it wants to read then
-- behind that in its connection: so the server goes on there by itself, once this script has ended.
local function tell(listener, message)
  redis.set_repl(redis.REPL_NONE)
  local heard = call("PUBLISH", channel_of(listener), message)
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

-- List a lock as held until `ends` at least.
local function keep_index(name, ends)
  call("ZADD", index, "GT", ends, name)
  local expires = call("PEXPIRETIME", index)
  if expires < ends then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed.
    call("PEXPIREAT", index, text(ends + INDEX_SLACK_MS))
    if expires > 0 then
      call("ZREMRANGEBYSCORE", index, "-inf", text(clock() - 1))
    end
  end
end

-- The last fencing token of a lock. Comes before a grant is told or written, so that a key of
-- a foreign type stops the script while nobody holds.
local function last_fence(name)
  local last = call("GET", FENCE .. name) or "0"
  if not tonumber(last) then
    error({ err = "WRONGTYPE " .. FENCE .. name .. " holds a string that is not ours" })
  end
  return tonumber(last)
end

local function next_after(fence)
  return math.max(fence + 1, now_us)
end

-- Write down the exclusive holder of a lock.
local function hold_alone(name, holder, fence, ends, claim)
  call("SET", FENCE .. name, text(fence + FENCE_RESERVED), "PX", FENCE_KEPT_MS)
  call("SET", HOLDER .. name, holder .. " " .. claim, "PXAT", text(ends))
end

local function claim_of(fence, mode, lease, listener, size, who)
  return fence .. " " .. text(now) .. " " .. mode .. " " .. lease .. " " .. listener .. " 0 " .. size .. " " .. who
end

local function waiting_claim(since, mode, lease, listener, wait, size, who)
  return "0 " .. since .. " " .. mode .. " " .. lease .. " " .. listener .. " " .. wait .. " " .. size .. " " .. who
end

local function expire(key, at)
  if call("PEXPIRETIME", key) < at then
    call("PEXPIREAT", key, text(at))
  end
end

-- Let a queue and its claims live until `kept` at least.
local function keep_queue(name, kept)
  if call("PEXPIRETIME", QUEUE .. name) < kept then
    call("PEXPIREAT", QUEUE .. name, text(kept + WAITER_SLACK_MS))
    expire(CLAIMS .. name, kept + WAITER_SLACK_MS)
  end
end

-- The thread or task that a token belongs to.
local function session(of)
  return string.match(of, "^(.*)%.") or of
end
