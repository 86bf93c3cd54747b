-- Shared start of the compat scripts.
--
-- KEYS, always these four of one lock:
--   lock    STRING  the holder's token, as redis-py writes it; expires only if it has a timeout
--   queue   LIST    our waiters in arrival order
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
--   3. Our scripts leave a free lock only with an empty queue.
--   4. The companions expire.

local lock, queue, claims, grant = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token = ARGV[1]

local CONFIRM_MS = 2000
-- A waiter asks at least every second.
local WAITER_KEPT_MS = 4000

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

-- Pass the free lock to the first living waiter and return it. `me` is the waiter that asks;
-- it takes the lock itself.
local function hand_off(me)
  while true do
    local first = redis.call("LPOP", queue)
    if not first then
      return nil
    end
    local claim = redis.call("HGET", claims, first)
    redis.call("HDEL", claims, first)
    if first == me then
      return first
    end
    local channel, theirs = string.match(claim or "", "^(%S+) (.*)$")
    if channel and listens(channel, first) then
      redis.call("SET", lock, theirs, "PX", CONFIRM_MS)
      if theirs ~= first then
        redis.call("SET", grant, first, "PX", CONFIRM_MS)
      end
      return first
    end
  end
end
