-- End a wait from outside, of all locks that it is for, and tell the waiter. Safe to repeat
-- within a minute.
--
-- KEYS: index lock
-- ARGV: token, of this cancellation
--   2 the token of the waiter
-- Reply: "token 1" ended; "token 0" it does not wait for the lock (any more)

--include _prelude
--include _lock
--include _modes
--include _queue

local waiter, done = ARGV[2], DONE .. token
if call("EXISTS", done) == 1 then
  return token .. " 1"
end

local name = all[1]
local claim = waiter_claim(state_of(name), waiter)
if not claim then
  return token .. " 0"
end
local _, _, _, _, listener, _, size = string.match(claim, CLAIM)
local locks = wanted(name, waiter, tonumber(size)) or { name }
leave(locks, waiter)
-- The reply may be lost; who asks again must learn what was done.
call("SET", done, "", "PX", DONE_KEPT_MS)
settle(locks)
-- No fencing token is below 0.
tell(listener, waiter .. " -1 " .. text(clock()))
return token .. " 1"
