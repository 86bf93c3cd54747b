-- Shared start of the compat scripts.
--
-- KEYS, always these four of one lock:
--   lock    STRING  the holder's token, as redis-py writes it; expires only if it has a timeout
--   queue   ZSET    our waiters by their numbers, which grow
--   claims  HASH    waiter -> "channel token"; channel "-" if the waiter cannot listen
--   grant   STRING  the waiter that a token of the user's own was granted to; expires
-- ARGV, always first: token.
--
-- A waiter is one call of acquire. Unless the user gave a token, it is also the token.
--
-- Invariants, true before and after every script:
--   1. Whoever's token is in `lock` holds it: redis-py's own locks see nothing else.
--   2. What is handed to a waiter expires after CONFIRM_MS unless the waiter then takes it. So
--      one that died meanwhile cannot hold for ever, whatever its timeout.
--   3. Our scripts leave a free lock only with an empty queue, or with waiters behind `MOST_DEAD`
--      dead ones: see `leave_rest`.
--   4. The companions expire.

local lock, queue, claims, grant = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token = ARGV[1]

local CONFIRM_MS = 2000
-- A waiter asks at least every second.
local WAITER_KEPT_MS = 4000
-- So many dead waiters a script drops, for which it takes 1 ms.
-- The next question drops the next of them.
local MOST_DEAD = 200
-- So many of the last in the queue are tried, for one that lives.
local MOST_LAST = 20

-- Whether a waiter can still be told; if we may not publish, only time can show.
local function listens(channel, waiter)
  if channel == "-" then
    return true
  end
  -- Here only: who still listens to a former primary must not hear it.
  redis.set_repl(redis.REPL_NONE)
  local heard = redis.pcall("PUBLISH", channel, waiter)
  redis.set_repl(redis.REPL_ALL)
  return type(heard) ~= "number" or heard > 0
end

-- The channel and the token in a waiter's claim; nil if it has none.
local function claim_of(waiter)
  return string.match(redis.call("HGET", claims, waiter) or "", "^(%S+) (.*)$")
end

-- Pass the free lock to the first living waiter and return it. `me` is the waiter that asks;
-- it takes the lock itself. The second value is whether more waiters than a script may drop
-- are dead.
local function hand_off(me)
  for _ = 1, MOST_DEAD do
    local first = redis.call("ZPOPMIN", queue)[1]
    if not first then
      return nil, false
    end
    local channel, theirs = claim_of(first)
    redis.call("HDEL", claims, first)
    if first == me then
      return first, false
    end
    if channel and listens(channel, first) then
      redis.call("SET", lock, theirs, "PX", CONFIRM_MS)
      if theirs ~= first then
        redis.call("SET", grant, first, "PX", CONFIRM_MS)
      end
      return first, false
    end
  end
  return nil, redis.call("EXISTS", queue) == 1
end

-- Let a living waiter ask again at once, which drops the next of the dead: `me` if given, or one of
-- the last, who are likelier to live. A waiter that cannot listen asks soon anyway.
local function leave_rest(me)
  local waiters = me and { me } or redis.call("ZRANGE", queue, 0, MOST_LAST - 1, "REV")
  for _, waiter in ipairs(waiters) do
    local channel = claim_of(waiter)
    if channel and channel ~= "-" and listens(channel, waiter) then
      return
    end
  end
end
