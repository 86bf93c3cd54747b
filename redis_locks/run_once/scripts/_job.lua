-- Start of every script of run_once: the job's lock, and what is known of the job.
--
-- KEYS, as ever: index, and the hash of the lock of the job's name, whose holder runs the
-- job. Beside the keys of that lock there is
--   P{n}:run:NAME  HASH  what is known of the job:
--                    state    "running" from the start of an attempt on, then "failed" or "done"
--                    attempt  number of the last attempt, from 1
--                    token    whose attempt it is or was
--                    kept     how long the record outlives a lease or an outcome, ms
--                    outcome  done: the result, JSON or empty; else how the attempt before the
--                             running one, or the failed one, ended: an error, or empty when
--                             its lease ended
--
-- Invariants, true before and after every script, beside those of the lock:
--   1. Only the holder of the lock writes an outcome, and ends its hold in the same script.
--   2. Each attempt has a token of its own and a number one above the last one's; a token
--      that asks twice has one attempt.
--   3. A job that is done gets no further attempt while its record lives.
--   4. The record outlives every lease of the job by what is kept, and then goes.

--include _prelude
--include _lock
--include _modes
--include _queue

local name = all[1]
local record = tag .. "run:" .. name

local known = redis.call("HMGET", record, "state", "attempt", "token", "outcome")
local state, attempt = known[1] or "new", tonumber(known[2] or 0)
local runner, outcome = known[3], known[4] or ""

local function keep_record(ends, kept)
  redis.call("PEXPIREAT", record, text(ends + kept))
end

-- End the caller's attempt with an outcome and hand the lock on; false if it does not hold.
local function finish(new_state, number, kept, new_outcome)
  if state == new_state and runner == token then
    return true -- the reply to an earlier try was lost
  end
  if not held_until(name) then
    return false
  end
  redis.call("HSET", record, "state", new_state, "attempt", number, "token", token,
    "kept", kept, "outcome", new_outcome)
  keep_record(clock(), tonumber(kept))
  let_go(name, token)
  settle(all)
  return true
end
