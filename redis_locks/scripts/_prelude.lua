-- Shared start of every script; the loader puts it before each file.
--
-- KEYS, always these five of one lock:
--   holder  STRING  "token claim" of who holds the lock; expires when the lease ends
--   queue   LIST    tokens of the waiters in arrival order
--   claims  HASH    waiter's token -> claim
--   fence   STRING  the last fencing token given out
--   index   ZSET    lock name -> when its holder's lease ends (ms), one per partition
-- ARGV, always first: token, name.
--
-- A claim is "fence since mode lease_ms channel give_up_at who": the fencing token (0 for a
-- waiter), holding or waiting since (ms), until when a waiter waits (ms, 0 for ever), and
-- JSON that only people read.
--
-- Invariants, true before and after every script:
--   1. A token holds, or stands once in queue with a claim, or neither; never both.
--   2. The fencing tokens of one lock strictly grow while the clock does not step back an hour.
--   3. A lock that is free has no waiter that listens: whoever frees it hands it on in the
--      same script. (A lease that ran out frees a lock without a script; its first waiter
--      runs one then.)
--   4. Every key has an expiry.
--
-- Redis freezes its clock while a script runs, so `now` and the expiry of keys agree.

local holder_key, queue, claims, fence_key, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, name = ARGV[1], ARGV[2]

local FENCE_KEPT_MS = 3600000
local INDEX_SLACK_MS = 60000
-- A waiter says every 2 s that it is there; after three missed turns its place may go. The
-- slack saves setting the expiry anew each time.
local WAITER_KEPT_MS = 6000
local WAITER_SLACK_MS = 4000

local time = redis.call("TIME")
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

local function text(number)
  return string.format("%.0f", number)
end

-- The token of the holder and its claim, or nil if the lock is free.
local function read_holder()
  local value = redis.call("GET", holder_key)
  if not value then
    return nil
  end
  local holder, claim = string.match(value, "^(%S+) (%d+ %d+ %a+ %d+ %S+ %d+ .*)$")
  if not holder then
    error({ err = "WRONGTYPE " .. holder_key .. " holds a string that is not ours" })
  end
  return holder, claim
end

-- Write when the lock's holder's lease ends, for listing.
local function keep_index(ends)
  redis.call("ZADD", index, ends, name)
  if redis.call("PEXPIRETIME", index) < ends then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed.
    redis.call("PEXPIREAT", index, text(ends + INDEX_SLACK_MS))
    redis.call("ZREMRANGEBYSCORE", index, "-inf", text(now - 1))
  end
end

-- List the lock as held and take the next fencing token. Goes before a grant is told or
-- written, so that a key of a foreign type stops the script while nobody holds.
local function prepare_grant(lease)
  keep_index(now + lease)
  local last = redis.call("GET", fence_key) or "0"
  if not tonumber(last) then
    error({ err = "WRONGTYPE " .. fence_key .. " holds a string that is not ours" })
  end
  local fence = text(math.max(tonumber(last) + 1, now_us))
  redis.call("SET", fence_key, fence, "PX", FENCE_KEPT_MS)
  return fence
end

-- Make `to` the holder. `rest` is "mode lease channel", as in a claim.
local function grant(to, fence, lease, rest, who)
  local claim = fence .. " " .. text(now) .. " " .. rest .. " 0 " .. who
  redis.call("SET", holder_key, to .. " " .. claim, "PXAT", text(now + lease))
end

-- Pass the free lock to the first waiter that still listens and still wants it. The message
-- is the grant: by the time the waiter reads it, it is the holder. `me` is the caller's own
-- token if it stands in line itself; it learns of its grant from the reply instead.
local function hand_off(me)
  while true do
    local first = redis.call("LPOP", queue)
    if not first then
      return nil
    end
    local claim = redis.call("HGET", claims, first)
    if claim then
      redis.call("HDEL", claims, first)
      local rest, lease, channel, give_up_at, who = string.match(claim, "^%d+ %d+ (%a+ (%d+) (%S+)) (%d+) (.*)$")
      if first == me or give_up_at == "0" or tonumber(give_up_at) > now then
        local fence = prepare_grant(tonumber(lease))
        if first == me or redis.call("PUBLISH", channel, first .. " " .. fence .. " " .. text(now)) > 0 then
          grant(first, fence, tonumber(lease), rest, who)
          return first, fence
        end
      end
    end
  end
end

-- The lock has no holder now: hand it on, or forget it if nobody is left.
local function settle()
  if not hand_off(nil) then
    redis.call("ZREM", index, name)
  end
end
