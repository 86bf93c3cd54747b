-- What the server keeps of a lock: how scripts read it and write it.
--
--   P{n}:lock:NAME     HASH    the lock, by field:
--                        state   "protocol shared_until fence expires first last waiting sharers": the number of
--                                the protocol; when the last lease of a sharer ends (ms); the last fencing token
--                                given out, or reserved with it; when the key goes (ms); the first and the last
--                                place in line, and how many stand there; how many share the lock
--                        holder  "token ends" of the exclusive holder, until its lease ends (ms)
--                        claim, who, label  its claim: in values of up to 64 bytes, a hash takes half the memory
--                        PLACE   "token claim" of the waiter at that place
--                        TOKEN   of a waiter: its place; of a sharer: its claim
--                        MODE    how many share it in that mode; "capacity": see `capacity_beside`
--   P{n}:sharers:NAME  ZSET    token -> end of lease (ms), of the holders that are not alone
--   P{n}:set:TOKEN     LIST    the names a waiter wants all at once, if they are several
--   P{n}:turn:TOKEN    LIST    for a moment, what TOKEN was told, as its connection waits for that: see `tell`
--   P{n}:done:TOKEN    STRING  says for a minute what a commit, force-release or cancellation did
--   P{n}:waits         HASH    session -> what it waits for, of those that look for deadlocks, or were told to: see detect
--   P{n}:index         ZSET    name of a held or waited-for lock -> end of its last lease (ms); "" -> 0
--
-- A claim is "fence since mode lease_ms listener wait size who": the fencing token (0 for a waiter),
-- holding or waiting since (ms), the connection that hears of a grant (see `channel_of`), for how
-- long a waiter waits at most (ms, 0 for ever), how many locks it wants at once, and text for people
-- with a tab between each two fields (see `bury` for the last one). A mode is "exclusive",
-- "shared", "permit:CAPACITY", "no_key", "key_share" or the intent of one, "intent:exclusive",
-- which says that locks below this one are held so. Of waiters only: "upgrade:TOKEN" (exclusive,
-- beside the shared hold TOKEN) and "intent:N:MODE", see `mode_at`.
--
-- Versions of this package meet in the hash. Whatever else a version keeps there, `state` begins with the number
-- of its protocol, `shared_until` and the fence, and `holder` with the token and the end of the lease. A script that
-- finds another number there stops before it changes anything, until those leases have ended.
--
-- Invariants, true before and after every script:
--   1. Any two holders may stand beside each other by the table `BESIDE`, and there are never
--      more permits than the smallest capacity among their claims.
--   2. A token holds, or stands once in line, or neither; never both. Holders and waiters of a set
--      hold, or stand, in all its locks; but where it has an intent, a waiter stands only as long as
--      that lock is in its way.
--   3. The fencing tokens of one lock strictly grow while the clock does not step back an hour.
--   4. Nobody that listens stands first in line though it could be granted: whoever makes room
--      grants in the same script. (A lease that ran out makes room without a script; the
--      first waiter runs one then.)
--   5. Every key has an expiry.

local PROTOCOL = "1"
local LOCK, SHARERS = tag .. "lock:", tag .. "sharers:"
local SET, DONE, WAITS = tag .. "set:", tag .. "done:", tag .. "waits"

local FENCE_KEPT_MS = 3600000
-- How much later a key expires than it must, so that its expiry is seldom moved.
local EXPIRY_SLACK_MS = 600000
local INDEX_SLACK_MS = 60000
local DONE_KEPT_MS = 60000
-- So many more fencing tokens belong to each grant, for holds that pass on inside a process; they
-- must be out of use even if that dies.
local FENCE_RESERVED = 16
-- A waiter says every 6 s that it is there; after three missed turns it may be forgotten.
local WAITER_KEPT_MS = 18000
local WAITER_SLACK_MS = 4000

local CLAIM = "^(%d+) (%d+) (%S+) (%d+) (%S+) (%d+) (%d+) (.*)$"

-- The names of the locks, in the caller's order.
local all = {}
for place = 2, #KEYS do
  all[place - 1] = string.sub(KEYS[place], #LOCK + 1)
end

local STATE = "^(%S+) (%d+) (%d+) (%d+) (%-?%d+) (%-?%d+) (%d+) (%d+)$"
local states = {}

-- The state of a lock that another version left in `state` and `holder`: nothing but the fence, once no lease lasts.
local function inherited(name, state, holder)
  local number, shared_until, fence = string.match(state, "^(%S+) (%d+) (%d+)")
  local ends = math.max(tonumber(shared_until or 0), tonumber(string.match(holder or "", "^%S+ (%d+)") or 0))
  if ends >= clock() then
    error({ err = "PROTOCOL " .. (number or "?") .. " " .. PROTOCOL .. " " .. text(ends - now) })
  end
  call("DEL", LOCK .. name, SHARERS .. name)
  return fence
end

-- The state of a lock, read once in a script.
local function state_of(name)
  if states[name] then
    return states[name]
  end
  local key = LOCK .. name
  local found = call("HMGET", key, "state", "holder", "claim", "who", "label")
  local number, shared_until, fence, expires, first, last, waiting, sharers = string.match(found[1] or "", STATE)
  if found[1] and number ~= PROTOCOL then
    fence = inherited(name, found[1], found[2])
    found, shared_until, expires, first, last, waiting, sharers = {}, 0, 0, 1, 0, 0, 0
  end
  local state = {
    name = name,
    key = key,
    holder = found[2] or nil,
    claim = found[3],
    who = found[4],
    label = found[5] or nil,
    shared_until = tonumber(shared_until or 0),
    fence = tonumber(fence or 0),
    expires = tonumber(expires or 0),
    first = tonumber(first or 1),
    last = tonumber(last or 0),
    waiting = tonumber(waiting or 0),
    sharers = tonumber(sharers or 0),
    -- What is to be written; see `save`.
    changed = false,
    puts = {},
    cuts = {},
  }
  states[name] = state
  return state
end

-- Set a field that is not part of the state; `save` writes it.
local function put(state, field, value)
  local puts = state.puts
  puts[#puts + 1] = field
  puts[#puts + 1] = value
end

-- Remove a field; `save` or `save_cuts` writes it.
local function cut(state, field)
  state.cuts[#state.cuts + 1] = field
end

-- Remove the fields that go. A server out of memory lets a script go on that has freed some, so this comes before
-- what needs memory; and what is told to a waiter comes after it.
local function save_cuts(state)
  if #state.cuts > 0 then
    call("HDEL", state.key, unpack(state.cuts))
    state.cuts = {}
  end
end

-- Write what has changed.
local function save(state)
  save_cuts(state)
  if state.changed then
    put(state, "state", table.concat({
      PROTOCOL, text(state.shared_until), text(state.fence), text(state.expires), text(state.first),
      text(state.last), text(state.waiting), text(state.sharers),
    }, " "))
    state.changed = false
  end
  if #state.puts > 0 then
    call("HSET", state.key, unpack(state.puts))
    state.puts = {}
  end
  if state.expiry_moved then
    call("PEXPIREAT", state.key, text(state.expires))
    if state.sharers > 0 then
      call("PEXPIREAT", SHARERS .. state.name, text(state.expires))
    end
    state.expiry_moved = false
  end
end

-- Let the keys of a lock live until an hour after `ends` at least; `save` writes it.
local function keep(state, ends)
  if state.expires < ends + FENCE_KEPT_MS then
    state.expires, state.expiry_moved = ends + FENCE_KEPT_MS + EXPIRY_SLACK_MS, true
    state.changed = true
  end
end

-- The token of the exclusive holder, its claim, and when its lease ends (ms); nil if there is none.
local function exclusive(name)
  local state = state_of(name)
  local holder = state.holder
  if not holder then
    return nil
  end
  local its, ends = string.match(holder, "^(%S+) (%d+)$")
  if tonumber(ends) < clock() then
    return nil
  end
  return its, state.claim .. " " .. state.who .. (state.label and "\t" .. state.label or ""), tonumber(ends)
end

-- List locks as held or waited for until `ends` at least.
local function list(locks, ends)
  local scores = {}
  for place, name in ipairs(locks) do
    scores[2 * place - 1], scores[2 * place] = text(ends), name
  end
  call("ZADD", index, "GT", unpack(scores))
  local expires = call("PEXPIRETIME", index)
  if expires < ends then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed. The member without a
    -- name keeps the key, and so its expiry, when no lock is listed.
    call("ZREMRANGEBYSCORE", index, "(0", text(clock() - 1))
    call("ZADD", index, 0, "")
    call("PEXPIREAT", index, text(ends + INDEX_SLACK_MS))
  end
end

local function next_after(fence)
  clock()
  return math.max(fence + 1, now_us)
end

-- The next fencing token of a set of locks, listed as held until `ends`. Comes before a grant is told
-- or written, so that a key of a foreign type stops the script while nobody holds.
local function next_fence(locks, ends)
  local fence = 0
  for _, name in ipairs(locks) do
    fence = math.max(fence, state_of(name).fence)
  end
  list(locks, ends)
  return text(next_after(fence))
end

-- The claim of a holder, without who it is.
local function claim_of(fence, mode, lease, listener, size)
  return fence .. " " .. text(clock()) .. " " .. mode .. " " .. lease .. " " .. listener .. " 0 " .. size
end

local function waiting_claim(since, mode, lease, listener, wait, size, who)
  return "0 " .. since .. " " .. mode .. " " .. lease .. " " .. listener .. " " .. wait .. " " .. size .. " " .. who
end

-- Write down the exclusive holder of a lock.
local function hold_alone(state, holder, fence, ends, claim, who)
  local first, label = string.match(who, "^([^\t]*\t[^\t]*\t[^\t]*)\t(.*)$")
  state.holder, state.claim, state.who, state.label = holder .. " " .. text(ends), claim, first or who, label
  put(state, "holder", state.holder)
  put(state, "claim", claim)
  put(state, "who", state.who)
  if label then
    put(state, "label", label)
  else
    cut(state, "label")
  end
  state.fence, state.changed = fence + FENCE_RESERVED, true
  keep(state, ends)
  save(state)
end

-- End the exclusive hold of a lock; `save` or `save_cuts` writes it.
local function free(state)
  state.holder = nil
  cut(state, "holder")
  cut(state, "claim")
  cut(state, "who")
  cut(state, "label")
end

-- Whether the caller is the exclusive holder of all the locks. A lease that ended while nobody else asked still counts.
local function holds_alone()
  local start = token .. " "
  for _, name in ipairs(all) do
    local holder = state_of(name).holder
    if not holder or string.sub(holder, 1, #start) ~= start then
      return false
    end
  end
  return true
end

local function nobody_waits()
  for _, name in ipairs(all) do
    if state_of(name).waiting > 0 then
      return false
    end
  end
  return true
end

-- End the caller's exclusive hold of all the locks, for which nobody waits.
local function free_all()
  for _, name in ipairs(all) do
    local state = state_of(name)
    free(state)
    save(state)
  end
  call("ZREM", index, unpack(all))
end

-- Stand in line, at its end or in `front` of it; `save` writes it.
local function stand(state, waiter, claim, front)
  local place
  if front then
    state.first = state.first - 1
    place = state.first
  else
    state.last = state.last + 1
    place = state.last
  end
  state.waiting = state.waiting + 1
  state.changed = true
  put(state, text(place), waiter .. " " .. claim)
  put(state, waiter, text(place))
end

-- Note which locks a waiter wants all at once.
local function want_set(waiter, locks, kept)
  if #locks > 1 then
    call("DEL", SET .. waiter)
    call("RPUSH", SET .. waiter, unpack(locks))
    call("PEXPIREAT", SET .. waiter, text(kept + WAITER_SLACK_MS))
    -- A lock of the set may have no holder, who lists it else.
    list(locks, kept)
  end
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
