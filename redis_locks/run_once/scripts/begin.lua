-- Begin the next attempt at a job, unless somebody is at it, it is done, or no attempt is left.
-- Safe to repeat: a token keeps its attempt. Never joins the queue; whom the queue has made
-- the holder begins with the same token, or hands the lock on here if there is nothing to do.
--
-- KEYS: index lock
-- ARGV: token
--   2 lease, ms
--   3 who, for people
--   4 listener, the caller's connection
--   5 most attempts
--   6 how long the record outlives lease and outcome, ms
--   7 how many questions of the token were broken off, if any
-- Reply: "token begun attempt fence outcome"    this attempt is the caller's;
--                                               how the last one ended
--        "token locked attempt now ends claim"  who is in the way, as acquire says it
--        "token done attempt outcome"           the result, or nothing
--        "token exhausted attempt outcome"      how the last attempt ended
-- A question that is late, see `_late`, begins nothing: nobody reads that it is "locked".

--include _job
--include _late

local lease, who, listener = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local most, kept, number = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7] or 0)

if late_by(all, token, number) then
  return token .. " locked " .. text(attempt) .. " " .. obstacle(all)
end
if number > 0 then
  mark_late(all, token, number)
end

local again = state == "running" and runner == token

local function nothing_to_do(word)
  if let_go(name, token) then
    settle(all)
  end
  return token .. " " .. word .. " " .. text(attempt) .. " " .. outcome
end

if state == "done" then
  return nothing_to_do("done")
end
if not held_until(name) then
  -- Those in the queue go first; without the caller, whose token is not in it.
  settle(all)
end
local holds = held_until(name) ~= nil
if not holds and (state_of(name).waiting > 0 or not room(name, "exclusive")) then
  return token .. " locked " .. text(attempt) .. " " .. obstacle(all)
end
if state == "running" and not again then
  outcome = "" -- its lease ended
end
if attempt >= most and not again then
  return nothing_to_do("exhausted")
end

local fence
local ends = clock() + lease
if holds then
  lengthen(all, ends)
  local _, claim = exclusive(name)
  fence = string.match(claim, "^%d+")
else
  fence = next_fence(all, ends)
  hold(all, token, fence, "exclusive", lease, listener, who)
end
if not again then
  attempt = attempt + 1
end
redis.call("HSET", record, "state", "running", "attempt", text(attempt), "token", token,
  "kept", kept, "outcome", outcome)
keep_record(ends, tonumber(kept))
return token .. " begun " .. text(attempt) .. " " .. fence .. " " .. outcome
