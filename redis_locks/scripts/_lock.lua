-- What the server keeps of a lock: how scripts read it and write it.
--
--   P{n}:lock:NAME     HASH    the lock, by field:
--                        state   "protocol shared_until fence expires sharers": the number of the
--                                protocol; when the last lease of a sharer ends (ms); the last
--                                fencing token given out; when the key goes (ms); how many share
--                                the lock
--                        line    "first last waiting", only while somebody waits: the first and the
--                                last place in the queue, and how many stand there
--                        holder  "token ends" of the exclusive holder, until its lease ends (ms)
--                        claim, who, label  its claim, in parts: with values of up to 64 bytes a
--                                hash takes half the memory, so `label` has what is behind the
--                                first 64 bytes of who it is
--                        PLACE   "token claim" of the waiter at that place
--                        TOKEN   of a waiter: its place; of a sharer: its claim
--                        MODE    how many share it in that mode
--                        capacities  "CAPACITY:NUMBER ..." of the permits that are out
--                        late    until when (ms) a question for it may come late: see `_late.lua`
--   P{n}:sharers:NAME  ZSET    token -> end of lease (ms), of the holders that are not alone
--   P{n}:set:TOKEN     LIST    the names a waiter wants all at once, if they are several
--   P{n}:turn:TOKEN    LIST    for a moment, what TOKEN was told,
--                              as its connection waits for that: see `tell`
--   P{n}:done:TOKEN    STRING  says for a minute what a commit or force-release did; of a waiter,
--                              for an hour, who cancelled its wait
--   P{n}:late:TOKEN    STRING  the number of the first question of TOKEN that does not come
--                              too late: see `_late.lua`
--   P{n}:waits         HASH    session -> what it waits for, of those that look for deadlocks,
--                              or were told to: see detect
--   P{n}:looks         STRING  how many steps looks for deadlocks have taken in advance,
--                              and when (ms): see detect
--   P{n}:long_waits:N  ZSET    name -> since when a waiter waits (ms),
--                              of those that asked again in a window of 8 s
--   P{n}:index         ZSET    name of a held or waited-for lock -> end of its last lease (ms);
--                              "" -> 0
--
-- A claim is "fence since mode lease_ms listener wait size who": the fencing token (0 for a
-- waiter), holding or waiting since (ms), the connection that hears of a grant (see
-- `_messages.lua`), for how long a waiter waits at most (ms, 0 for ever), how many locks it wants
-- at once, and text for people with a tab between each two fields (see `crash_release` for the last
-- one). A mode is "exclusive", "shared", "permit:CAPACITY", "no_key", "key_share" or the intent of
-- one, "intent:exclusive", which says that locks below this one are held so. Of waiters only:
-- "upgrade:TOKEN" (exclusive, beside the shared hold TOKEN) and "intent:N:MODE", see `mode_at`.
--
-- Versions of this package meet in the hash. Whatever else a version keeps there, `state` begins
-- with the number of its protocol, `shared_until` and the fence, and `holder` with the token and
-- the end of the lease. A script that finds another number there stops before it changes anything,
-- until those leases have ended.
--
-- Invariants, true before and after every script:
--   1. Any two holders may stand beside each other by the table `BESIDE`, and there are never
--      more permits than the smallest capacity among their claims.
--   2. A token holds, or stands once in the queue, or neither; never both. Holders and waiters of a
--      set hold, or stand, in all its locks; but where it has an intent, a waiter stands only as
--      long as that lock is in its way.
--   3. The fencing tokens of one lock strictly grow while the clock does not step back an hour.
--   4. Nobody that listens stands first in the queue though it could be granted: whoever makes room
--      grants in the same script, or tells a waiter to ask again if that is too much for one
--      script. (A lease that ran out makes room without a script; the first waiter runs one then.)
--   5. Every key has an expiry.

--include _keys
--include _claim

-- A waiter that asks again after long notes its lock in LONG_WAITS, in a set of its own for each so
-- many ms. That is longer than the pause between two questions.
local LONG_WAITS = tag .. "long_waits:"
local LONG_WAITS_MS = 8000

local states = {}

-- Write a lock's state and other fields. Its key lives until an hour after `ends` at least;
-- returns when it goes.
local function write(key, ends, shared_until, fence, expires, sharers, ...)
  local moved = expires < ends + FENCE_KEPT_MS
  if moved then
    expires = ends + FENCE_KEPT_MS + EXPIRY_SLACK_MS
  end
  local state = PROTOCOL .. " " .. shared_until .. " " .. fence .. " " .. expires .. " " .. sharers
  call("HSET", key, "state", state, ...)
  if moved then
    call("PEXPIREAT", key, expires)
  end
  return expires
end

-- The state of a lock that another version left in `state` and `holder`:
-- nothing but the fence, once no lease lasts.
local function inherited(name, state, holder)
  local number, fence, ends = common(state, holder)
  if ends >= clock() then
    error({ err = "PROTOCOL " .. number .. " " .. PROTOCOL .. " " .. text(ends - now) })
  end
  call("DEL", LOCK .. name, SHARERS .. name)
  return fence, write(LOCK .. name, now, 0, fence, 0, 0)
end

-- The state of a lock, read once in a script.
local function state_of(name)
  if states[name] then
    return states[name]
  end
  local key = LOCK .. name
  local found = call("HMGET", key, "state", "holder", "claim", "who", "label", "late", "line")
  local number, shared_until, fence, expires, sharers = PROTOCOL, 0, 0, 0, 0
  if found[1] then
    number, shared_until, fence, expires, sharers = string.match(found[1], STATE)
  end
  if number ~= PROTOCOL then
    fence, expires = inherited(name, found[1], found[2])
    found, shared_until, sharers = {}, 0, 0
  end
  local first, last, waiting = 1, 0, 0
  if found[7] then
    first, last, waiting = string.match(found[7], LINE)
  end
  local state = {
    name = name,
    key = key,
    holder = found[2] or nil,
    claim = found[3],
    who = found[4],
    label = found[5] or nil,
    late = found[6] or nil,
    shared_until = tonumber(shared_until),
    fence = tonumber(fence),
    expires = tonumber(expires),
    line = found[7] or nil,
    first = tonumber(first),
    last = tonumber(last),
    waiting = tonumber(waiting),
    sharers = tonumber(sharers),
    -- How many of the sharers have ended, and are not forgotten yet; see `sharers`.
    ended = 0,
    -- What is to be written; see `save`.
    kept = 0,
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

-- Remove the fields that go. A server out of memory lets a script go on that has freed some, so
-- this comes before what needs memory; and what is told to a waiter comes after it.
local function save_cuts(state)
  if state.waiting == 0 and state.line then
    state.line = nil
    cut(state, "line")
  end
  if #state.cuts > 0 then
    call("HDEL", state.key, unpack(state.cuts))
    state.cuts = {}
  end
end

-- Write what has changed.
local function save(state)
  save_cuts(state)
  local its_line = state.waiting > 0 and state.first .. " " .. state.last .. " " .. state.waiting
  if its_line and its_line ~= state.line then
    state.line = its_line
    put(state, "line", its_line)
  end
  if state.changed then
    local expires = write(state.key, state.kept, state.shared_until, text(state.fence),
      state.expires, state.sharers, unpack(state.puts))
    if expires ~= state.expires and state.sharers > 0 then
      call("PEXPIREAT", SHARERS .. state.name, expires)
    end
    state.expires, state.changed = expires, false
  elseif #state.puts > 0 then
    call("HSET", state.key, unpack(state.puts))
  end
  state.puts = {}
end

-- Let the keys of a lock live until an hour after `ends` at least; `save` writes it.
local function keep(state, ends)
  state.kept, state.changed = math.max(state.kept, ends), true
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
  return its, state.claim .. " " .. state.who .. (state.label or ""), tonumber(ends)
end

local function next_after(fence)
  clock()
  return math.max(fence + 1, now_us)
end

-- The next fencing token of a set of locks, listed as held until `ends`. Comes before a grant is
-- told or written, so that a key of a foreign type stops the script while nobody holds.
local function next_fence(locks, ends)
  local fence = 0
  for _, name in ipairs(locks) do
    fence = math.max(fence, state_of(name).fence)
  end
  list(locks, ends)
  return text(next_after(fence))
end

-- Write down the exclusive holder of a lock.
local function hold_alone(state, holder, fence, ends, claim, who)
  state.holder, state.claim, state.who = holder .. " " .. ends, claim, string.sub(who, 1, SHORT)
  put(state, "holder", state.holder)
  put(state, "claim", claim)
  put(state, "who", state.who)
  if #who > SHORT then
    state.label = string.sub(who, SHORT + 1)
    put(state, "label", state.label)
  elseif state.label then
    state.label = nil
    cut(state, "label")
  end
  state.fence = tonumber(fence)
  keep(state, ends)
  save(state)
end

-- End the exclusive hold of a lock; `save` or `save_cuts` writes it.
local function free(state)
  state.holder, state.label = nil, nil
  cut(state, "holder")
  cut(state, "claim")
  cut(state, "who")
  cut(state, "label")
end

-- Stand in the queue, at its end or in `front` of it; `save` writes it.
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
  put(state, text(place), waiter .. " " .. claim)
  put(state, waiter, text(place))
end

-- Note which locks a waiter wants all at once.
local function want_set(waiter, locks, kept)
  if #locks > 1 then
    call("DEL", SET .. waiter)
    call("RPUSH", SET .. waiter, unpack(locks))
    call("PEXPIREAT", SET .. waiter, text(kept + 4000)) -- a little later than its place
    -- A lock of the set may have no holder, who lists it else.
    list(locks, kept)
  end
end
