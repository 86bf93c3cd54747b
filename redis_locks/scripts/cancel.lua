-- End a wait from outside, of all locks that it is for, and tell the waiter. Safe to repeat
-- within an hour. So long, the waiter's own questions find that its wait is over: see `acquire`.
--
-- KEYS: index lock
-- ARGV: token, of this cancellation
--   2 the token of the waiter
-- Reply: "token 1" ended; "token 0" it does not wait for the lock (any more)

--include _prelude
--include _lock
--include _modes
--include _queue

local CANCELLED_KEPT_MS = 3600000

-- The message may find nobody, and the reply may be lost:
-- so the place of what was done is the waiter's token.
local waiter = ARGV[2]
local done = DONE .. waiter
local earlier = call("GET", done)
if earlier then
  return token .. (earlier == token and " 1" or " 0")
end

local name = all[1]
local claim = waiter_claim(state_of(name), waiter)
if not claim then
  return token .. " 0"
end
local _, _, _, _, listener, _, size = string.match(claim, CLAIM)
local locks = wanted(name, waiter, tonumber(size)) or { name }
take_out(locks, waiter)
call("SET", done, token, "PX", CANCELLED_KEPT_MS)
settle(locks)
-- No fencing token is below 0.
tell(listener, waiter .. " -1 " .. text(clock()))
return token .. " 1"
