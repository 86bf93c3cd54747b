-- Modes: who may hold beside whom, and the holders that are not alone, the sharers.

-- Beside whom each mode can be held: the table of conflicts. An intent stands beside what its
-- mode stands beside, and beside all intents. Of permits, `room` also looks at the number.
local BESIDE
do
  local INTENTS = "intent:exclusive intent:no_key intent:shared intent:key_share"
  BESIDE = {
    exclusive = "",
    no_key = "key_share intent:key_share",
    shared = "shared key_share intent:shared intent:key_share",
    key_share = "no_key shared key_share intent:no_key intent:shared intent:key_share",
    permit = "permit",
    ["intent:exclusive"] = INTENTS,
    ["intent:no_key"] = "key_share " .. INTENTS,
    ["intent:shared"] = "shared key_share " .. INTENTS,
    ["intent:key_share"] = "no_key shared key_share " .. INTENTS,
  }
end

-- The token of the shared hold that an upgrade starts from, or nil.
local function upgraded(mode)
  return string.match(mode, "^upgrade:(.*)$")
end

-- The row of the table that a mode has.
local function kind(mode)
  return string.match(mode, "^permit") or upgraded(mode) and "exclusive" or mode
end

-- The mode in which a request wants the lock at `place` of its set: "intent:N:MODE" wants the
-- first N with the intent of MODE, and the others in MODE.
local function mode_at(mode, place)
  local intents, plain = string.match(mode, "^intent:(%d+):(.*)$")
  if not intents then
    return mode
  end
  return place <= tonumber(intents) and "intent:" .. plain or plain
end

-- Whether the table lets `mode` stand beside a holder in mode `other`.
local function beside(mode, other)
  return string.find(" " .. BESIDE[kind(mode)] .. " ", " " .. kind(other) .. " ", 1, true) ~= nil
end

-- Count sharers from 0 again: nobody shares the lock.
local function forget_counts(state)
  state.sharers, state.ended, state.shared_until, state.changed = 0, 0, 0, true
  call("HDEL", state.key, "capacities", "permit", "no_key", "shared", "key_share",
    "intent:exclusive", "intent:no_key", "intent:shared", "intent:key_share")
end

-- How many permits of each capacity are out: capacity -> number.
local function capacities(state)
  local found = {}
  local out = call("HGET", state.key, "capacities") or ""
  for capacity, number in string.gmatch(out, "(%d+):(%d+)") do
    found[capacity] = tonumber(number)
  end
  return found
end

-- Count so many more sharers in a mode.
local function count_in(state, mode, more)
  call("HINCRBY", state.key, kind(mode), more)
  local capacity = string.match(mode, "^permit:(%d+)$")
  if capacity then
    local out, kept = capacities(state), {}
    out[capacity] = (out[capacity] or 0) + more
    for each, number in pairs(out) do
      if number > 0 then
        kept[#kept + 1] = each .. ":" .. number
      end
    end
    call("HSET", state.key, "capacities", table.concat(kept, " "))
  end
end

-- The claim of a sharer, or nil if it does not share the lock.
local function sharer_claim(name, sharer)
  local claim = state_of(name).sharers > 0 and call("HGET", LOCK .. name, sharer)
  return claim and string.find(claim, " ", 1, true) and claim or nil
end

-- The mode of a sharer, or nil if its claim is gone.
local function mode_of(name, sharer)
  return string.match(sharer_claim(name, sharer) or "", "^%d+ %d+ (%S+) ")
end

-- Take sharers out.
local function unshare(name, tokens)
  local state, gone, counts = state_of(name), {}, {}
  local claims = call("HMGET", state.key, unpack(tokens))
  for place, sharer in ipairs(tokens) do
    local mode = string.match(claims[place] or "", "^%d+ %d+ (%S+) ")
    if mode then
      gone[#gone + 1], counts[mode] = sharer, (counts[mode] or 0) + 1
    end
  end
  call("ZREM", SHARERS .. name, unpack(tokens))
  -- Not as many as that were: the script that wrote one down may have been refused
  -- before it could count it.
  state.sharers, state.changed = state.sharers - #gone, true
  for mode, number in pairs(counts) do
    count_in(state, mode, -number)
  end
  if #gone > 0 then
    call("HDEL", state.key, unpack(gone))
  end
  if state.sharers <= 0 then
    forget_counts(state)
  end
  save(state)
end

-- How many sharers hold. Forgets some of those whose lease has ended, and leaves out the rest. A
-- lease has not ended before the next millisecond, as with Redis's keys, for the holder may count
-- from later in this one. If their set is missing while a lease may last, the script stops: on a
-- cluster the set may be on its way to this node.
local function sharers(name)
  local state, key = state_of(name), SHARERS .. name
  if state.sharers > 0 and not state.swept then
    local before = text(clock() - 1)
    local ended = call("ZRANGE", key, "-inf", before, "BYSCORE", "LIMIT", 0, MOST_FORGOTTEN)
    if #ended > 0 then
      unshare(name, ended)
    end
    if state.sharers > 0 and call("EXISTS", key) == 0 then
      if #ended == 0 and state.shared_until >= clock() then
        error({ err = "TRYAGAIN the leases of the sharers are not on this server" })
      end
      forget_counts(state)
      save(state)
    end
    if #ended == MOST_FORGOTTEN then
      state.ended = state.sharers - call("ZCOUNT", key, text(clock()), "+inf")
    end
    state.swept = true
  end
  return state.sharers - state.ended
end

-- When a sharer's lease ends (ms), or nil if it does not hold.
local function shares(name, sharer)
  local ends = sharers(name) > 0 and call("ZSCORE", SHARERS .. name, sharer)
  return ends and tonumber(ends) >= clock() and tonumber(ends) or nil
end

-- When the caller's lease of a lock ends (ms), or nil if it does not hold the lock.
local function held_until(name)
  local holder, _, ends = exclusive(name)
  if holder then
    return holder == token and ends or nil
  end
  return shares(name, token)
end

-- How many permits `mode` allows in all beside those that are out: the smallest capacity
-- among them and the asker, so that a changed capacity never admits too many.
local function capacity_beside(name, mode)
  local smallest = tonumber(string.match(mode, "^permit:(%d+)$"))
  for capacity in pairs(capacities(state_of(name))) do
    smallest = math.min(smallest, tonumber(capacity))
  end
  return smallest
end

-- Whether the holders leave room for one more in `mode`: all stand where the table lets it
-- stand beside them.
local function room(name, mode)
  if exclusive(name) then
    return false
  end
  local count = sharers(name)
  local from = upgraded(mode)
  if from then
    return count == 1 and shares(name, from) ~= nil
  end
  local row = kind(mode)
  if count == 0 and row ~= "exclusive" then
    -- A key of a foreign type stops the script here, before anything is told.
    call("ZSCORE", SHARERS .. name, token)
  end
  if count == 0 or row == "exclusive" then
    return count == 0
  end
  local kinds, fitting = {}, 0
  for each in string.gmatch(BESIDE[row], "%S+") do
    kinds[#kinds + 1] = each
  end
  for _, number in ipairs(call("HMGET", LOCK .. name, unpack(kinds))) do
    fitting = fitting + (tonumber(number or 0))
  end
  return fitting == state_of(name).sharers
    and (row ~= "permit" or count < capacity_beside(name, mode))
end

-- Make the caller's lease of the locks last until `ends` at least; returns when it ends.
local function lengthen(locks, ends)
  local soonest = math.huge
  for _, name in ipairs(locks) do
    local state, until_then = state_of(name), held_until(name) or 0
    -- Changes nothing, but a replica refuses it,
    -- and a server out of memory lets a script go on that has written.
    call("PEXPIREAT", state.key, state.expires, "GT")
    if until_then > 0 and until_then < ends then
      if exclusive(name) then
        state.holder = token .. " " .. text(ends)
        put(state, "holder", state.holder)
      else
        call("ZADD", SHARERS .. name, "XX", text(ends), token)
        state.shared_until, state.changed = math.max(state.shared_until, ends), true
      end
      keep(state, ends)
      list({ name }, ends)
      save(state)
      until_then = ends
    end
    soonest = math.min(soonest, until_then)
  end
  return soonest
end

-- Write down one more sharer of a lock.
local function hold_beside(state, holder, fence, mode, ends, claim)
  -- An adopted hold may be older than others that share the lock.
  state.fence, state.changed = math.max(state.fence, tonumber(fence)), true
  if state.holder then
    free(state) -- its lease has ended: it must not count again should its holder come back
  end
  if sharers(state.name) == 0 then
    -- The set of their leases is made anew, without an expiry.
    state.expires = 0
  end
  put(state, holder, claim)
  if call("ZADD", SHARERS .. state.name, text(ends), holder) == 1 then
    state.sharers = state.sharers + 1
    count_in(state, mode, 1)
  else
    state.ended = state.ended - 1 -- it had held before, and was not forgotten yet
  end
  state.shared_until = math.max(state.shared_until, ends)
  keep(state, ends)
  save(state)
end

-- Write down a holder of all the locks.
local function hold(locks, holder, fence, mode, lease, listener, who)
  local from = upgraded(mode)
  local ends = clock() + lease
  for _, name in ipairs(from and locks or {}) do
    -- Never shorter than the shared hold that it takes the place of.
    ends = math.max(ends, shares(name, from) or 0)
  end
  mode = from and "exclusive" or mode
  for place, name in ipairs(locks) do
    local here = mode_at(mode, place)
    local claim = claim_of(fence, now, here, text(lease), listener, "0", #locks)
    if from then
      unshare(name, { from })
      list({ name }, ends)
    end
    if here == "exclusive" then
      hold_alone(state_of(name), holder, fence, ends, claim, who)
    else
      hold_beside(state_of(name), holder, fence, here, ends, claim .. " " .. who)
    end
  end
end

-- End the hold that `holder` has of one lock; returns whether there was one.
local function let_go(name, holder)
  local state = state_of(name)
  if exclusive(name) == holder then
    free(state)
    return true
  end
  if not shares(name, holder) then
    return false
  end
  unshare(name, { holder })
  return true
end

-- Turn the caller's exclusive hold of one lock into a shared one of `as`, lease unchanged.
local function become_shared(name, as)
  local _, claim, ends = exclusive(name)
  local fence, _, _, _, listener, _, _, who = string.match(claim, CLAIM)
  free(state_of(name))
  save_cuts(state_of(name))
  hold({ name }, as, fence, "shared", ends - clock(), listener, who)
end
