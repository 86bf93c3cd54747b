-- Shared start of the scripts that know modes and sets, after `_prelude.lua`.

local all = {}
for i = 2, #KEYS do
  all[i - 1] = string.sub(KEYS[i], #HOLDER + 1)
end

-- Beside whom each mode can be held: the table of conflicts. An intent stands beside what its
-- mode stands beside, and beside all intents. Of permits, `room` also looks at the number.
local INTENTS = "intent:exclusive intent:no_key intent:shared intent:key_share"
local BESIDE = {
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

-- Start counting sharers anew.
local function forget_counts(name)
  call("HDEL", CLAIMS .. name, "capacity", "permit", "no_key", "shared", "key_share",
    "intent:exclusive", "intent:no_key", "intent:shared", "intent:key_share")
end

-- The mode of a sharer, or nil if its claim is gone.
local function mode_of(name, sharer)
  return string.match(call("HGET", CLAIMS .. name, sharer) or "", "^%d+ %d+ (%S+) ")
end

-- Take sharers out.
local function unshare(name, tokens)
  for _, sharer in ipairs(tokens) do
    local mode = mode_of(name, sharer)
    if call("ZREM", SHARERS .. name, sharer) == 1 and mode then
      call("HINCRBY", CLAIMS .. name, kind(mode), -1)
    end
    call("HDEL", CLAIMS .. name, sharer)
  end
  if call("EXISTS", SHARERS .. name) == 0 then
    forget_counts(name)
  end
end

-- How many sharers hold, after forgetting those whose lease has ended: not before the next
-- millisecond, as Redis does with keys, for the holder may count from later in this one.
local function sharers(name)
  local key = SHARERS .. name
  if call("EXISTS", key) == 0 then
    return 0
  end
  local ended = call("ZRANGE", key, "-inf", text(clock() - 1), "BYSCORE")
  if #ended > 0 then
    unshare(name, ended)
  end
  return call("ZCARD", key)
end

-- Whether `sharer` holds.
local function shares(name, sharer)
  return sharers(name) > 0 and call("ZSCORE", SHARERS .. name, sharer) ~= false
end

-- When the caller's lease of a lock ends (ms), or nil if it does not hold the lock.
local function held_until(name)
  if exclusive(name) == token then
    return call("PEXPIRETIME", HOLDER .. name)
  end
  local ends = tonumber(call("ZSCORE", SHARERS .. name, token) or 0)
  return ends >= clock() and ends or nil
end

-- How many permits `mode` allows in all beside those that are out: the smallest capacity
-- among them and the asker, so that a changed capacity never admits too many. "capacity" in
-- claims keeps the smallest.
local function capacity_beside(name, mode)
  local wanted = tonumber(string.match(mode, "^permit:(%d+)$"))
  local kept = tonumber(call("HGET", CLAIMS .. name, "capacity") or "0")
  if wanted > kept then
    -- It was raised: those who set the limit may be gone.
    kept = wanted
    for _, sharer in ipairs(call("ZRANGE", SHARERS .. name, 0, -1)) do
      local claim = call("HGET", CLAIMS .. name, sharer) or ""
      kept = math.min(kept, tonumber(string.match(claim, " permit:(%d+) ")) or 0)
    end
  end
  kept = math.min(wanted, kept)
  call("HSET", CLAIMS .. name, "capacity", text(kept))
  return kept
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
    return count == 1 and shares(name, from)
  end
  local row = kind(mode)
  if count == 0 or row == "exclusive" then
    return count == 0
  end
  local kinds, fitting = {}, 0
  for each in string.gmatch(BESIDE[row], "%S+") do
    kinds[#kinds + 1] = each
  end
  for _, number in ipairs(call("HMGET", CLAIMS .. name, unpack(kinds))) do
    fitting = fitting + (tonumber(number or 0))
  end
  return fitting == count and (row ~= "permit" or count < capacity_beside(name, mode))
end

-- The next fencing token of a set of locks, listed as held until `ends`.
local function next_fence(locks, ends)
  local fence = 0
  for _, name in ipairs(locks) do
    fence = math.max(fence, last_fence(name))
  end
  for _, name in ipairs(locks) do
    keep_index(name, ends)
  end
  return text(next_after(fence))
end

-- Make the caller's lease of the locks last until `ends` at least; returns when it ends.
local function lengthen(locks, ends)
  local soonest
  for _, name in ipairs(locks) do
    if exclusive(name) == token then
      if call("PEXPIREAT", HOLDER .. name, text(ends), "GT") == 1 then
        keep_index(name, ends)
      end
    elseif call("ZADD", SHARERS .. name, "XX", "GT", "CH", text(ends), token) == 1 then
      expire(SHARERS .. name, ends)
      expire(CLAIMS .. name, ends)
      keep_index(name, ends)
    end
    soonest = math.min(soonest or math.huge, held_until(name) or 0)
  end
  return soonest
end

-- Forget the claims of sharers that are gone: their set expired with the last lease.
local function forget_claims(name)
  forget_counts(name)
  if call("HLEN", CLAIMS .. name) <= call("LLEN", QUEUE .. name) then
    return
  end
  local claims = call("HGETALL", CLAIMS .. name)
  for i = 1, #claims, 2 do
    if string.sub(claims[i + 1], 1, 2) ~= "0 " then
      call("HDEL", CLAIMS .. name, claims[i])
    end
  end
end

-- Write down a holder of all the locks.
local function hold(locks, holder, fence, mode, lease, listener, who)
  local from = upgraded(mode)
  local ends = clock() + lease
  for _, name in ipairs(from and locks or {}) do
    -- Never shorter than the shared hold that it takes the place of.
    ends = math.max(ends, tonumber(call("ZSCORE", SHARERS .. name, from) or 0))
  end
  mode = from and "exclusive" or mode
  local claim, claimed
  for place, name in ipairs(locks) do
    local here = mode_at(mode, place)
    if here ~= claimed then
      claim, claimed = claim_of(fence, here, text(lease), listener, #locks, who), here
    end
    if from then
      unshare(name, { from })
      keep_index(name, ends)
    end
    if here == "exclusive" then
      hold_alone(name, holder, fence, ends, claim)
    else
      -- An adopted hold may be older than others that share the lock.
      call("SET", FENCE .. name, text(math.max(fence, last_fence(name))), "PX", FENCE_KEPT_MS)
      if call("EXISTS", SHARERS .. name) == 0 then
        forget_claims(name)
        local capacity = string.match(here, "^permit:(%d+)$")
        if capacity then
          call("HSET", CLAIMS .. name, "capacity", capacity)
        end
      end
      call("HSET", CLAIMS .. name, holder, claim)
      if call("ZADD", SHARERS .. name, text(ends), holder) == 1 then
        call("HINCRBY", CLAIMS .. name, kind(here), 1)
      end
      expire(CLAIMS .. name, ends)
      expire(SHARERS .. name, ends)
    end
  end
end

-- End the caller's hold of one lock; returns whether there was one.
local function let_go(name)
  if exclusive(name) == token then
    call("DEL", HOLDER .. name)
    return true
  end
  if not held_until(name) then
    return false
  end
  unshare(name, { token })
  return true
end

-- Turn the caller's exclusive hold of one lock into a shared one of `as`, lease unchanged.
local function become_shared(name, as)
  local _, claim = exclusive(name)
  local fence, _, _, _, listener, _, _, who = string.match(claim, CLAIM)
  local left = call("PEXPIRETIME", HOLDER .. name) - clock()
  call("DEL", HOLDER .. name)
  hold({ name }, as, fence, "shared", left, listener, who)
end
