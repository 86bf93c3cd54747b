-- Shared start of every script; the loader puts it before each file.
--
-- KEYS, always these five of one lock:
--   holders  ZSET    token -> when its lease ends (server clock, ms)
--   queue    ZSET    token -> place in line (1, 2, 3 ...)
--   claims   HASH    token -> what it asked for or holds, see `write_claim`
--   fence    STRING  the last fencing token given out
--   index    ZSET    lock name -> until when it is of interest (ms), one per partition
-- ARGV, always first: token, name.
--
-- Invariants, true before and after every script:
--   1. A token is in holders or in queue, never in both; each has a claim.
--   2. An exclusive lock has at most one holder whose lease has not ended.
--   3. The fencing tokens of one lock strictly grow while the clock does not step back an hour.
--   4. A free lock has no waiter that listens: whoever frees it hands it on in the same script.
--   5. Every key has an expiry.

local holders, queue, claims, fence_key, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, name = ARGV[1], ARGV[2]

local FENCE_KEPT_MS = 3600000
local INDEX_SLACK_MS = 60000
-- A waiter says every 2 s that it is there; three missed turns and its place may go.
local WAITER_KEPT_MS = 6000

local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

local function text(number)
  return string.format("%.0f", number)
end

local function keep_until(key, at)
  if redis.call("PEXPIRETIME", key) < at then
    redis.call("PEXPIREAT", key, text(at))
  end
end

local function keep_index(at)
  redis.call("ZADD", index, "GT", text(at), name)
  if redis.call("PEXPIRETIME", index) < at then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed.
    redis.call("PEXPIREAT", index, text(at + INDEX_SLACK_MS))
    redis.call("ZREMRANGEBYSCORE", index, "-inf", text(now - 1))
  end
end

-- One claim is "fence since mode lease_ms channel give_up_at who"; a waiter's fence is 0,
-- its give_up_at 0 when it waits for ever; `who` is JSON that only people read.
local function write_claim(of, fence, since, mode, lease, channel, give_up_at, who)
  redis.call("HSET", claims, of, table.concat({ fence, since, mode, lease, channel, give_up_at, who }, " "))
end

local function read_claim(of)
  local claim = redis.call("HGET", claims, of)
  if not claim then
    return nil
  end
  local fence, since, mode, lease, channel, give_up_at, who =
    string.match(claim, "^(%d+) (%d+) (%a+) (%d+) (%S+) (%d+) (.*)$")
  return { fence = fence, since = since, mode = mode, lease = tonumber(lease), channel = channel,
    give_up_at = tonumber(give_up_at), who = who }
end

-- The living holder and when its lease ends, or nil. Drops holders whose lease has ended.
local function living_holder()
  while true do
    local first = redis.call("ZRANGE", holders, 0, 0, "WITHSCORES")
    if not first[1] then
      return nil
    end
    if tonumber(first[2]) > now then
      return first[1], tonumber(first[2])
    end
    redis.call("ZREM", holders, first[1])
    redis.call("HDEL", claims, first[1])
  end
end

local function next_fence()
  local last = tonumber(redis.call("GET", fence_key) or 0)
  return text(math.max(last + 1, now_us))
end

local function grant(to, fence, mode, lease, channel, who)
  local ends = now + lease
  -- The holder comes last: should a key of a foreign type stop the script, nobody holds.
  keep_index(ends)
  write_claim(to, fence, text(now), mode, lease, channel, 0, who)
  keep_until(claims, ends)
  redis.call("SET", fence_key, fence, "PX", FENCE_KEPT_MS)
  redis.call("ZADD", holders, text(ends), to)
  keep_until(holders, ends)
end

-- Pass the free lock to the first waiter that still listens and still wants it. The message
-- is the grant: by the time the waiter reads it, it is the holder. `me` is the caller's own
-- token when it stands in line itself; it learns of its grant from the reply instead.
local function hand_off(me)
  while true do
    local first = redis.call("ZRANGE", queue, 0, 0)[1]
    if not first then
      return nil
    end
    redis.call("ZREM", queue, first)
    local claim = read_claim(first)
    if claim and (first == me or claim.give_up_at == 0 or claim.give_up_at > now) then
      local fence = next_fence()
      local message = table.concat({ first, fence, text(now) }, " ")
      if first == me or redis.call("PUBLISH", claim.channel, message) > 0 then
        grant(first, fence, claim.mode, claim.lease, claim.channel, claim.who)
        return first, fence
      end
    end
    redis.call("HDEL", claims, first)
  end
end

-- After a token has left: hand the lock on, or forget it when nobody is left.
local function settle()
  if not living_holder() and not hand_off(nil) then
    redis.call("ZREM", index, name)
  end
end
