-- Read one lock, or a part of it: its holders by the end of their leases, and its queue in order.
-- Forgets sharers whose lease has ended.
--
-- KEYS: index lock
-- ARGV: token (not used)
--   2 most waiters to return, and most holders
--   3 the place in the queue to begin at; "first", or "none" for no waiters
--   4 earliest lease end of a holder, ms; 0: now
--   5 how many holders with no earlier lease end to skip
-- Reply: {now ms, number of waiters, number of holders, {token, lease end ms, claim, ...}, {token,
-- claim, ...}, the place in the queue to go on at, or "none"}

--include _prelude
--include _lock
--include _modes
--include _queue

local most, ends_from, skip = tonumber(ARGV[2]), tonumber(ARGV[4]), ARGV[5]
local name = all[1]
local state = state_of(name)
local held, standing, count = {}, {}, 1
local holder, claim, ends = exclusive(name)
if holder then
  held = { holder, text(ends), claim }
else
  count = sharers(name)
  local from = text(math.max(ends_from, clock()))
  local found = call("ZRANGE", SHARERS .. name, from, "+inf", "BYSCORE",
    "LIMIT", skip, most, "WITHSCORES")
  local tokens = {}
  for i = 1, #found, 2 do
    tokens[#tokens + 1] = found[i]
  end
  local claims = #tokens > 0 and call("HMGET", state.key, unpack(tokens)) or {}
  for place, sharer in ipairs(tokens) do
    held[#held + 1] = sharer
    held[#held + 1] = found[2 * place]
    held[#held + 1] = claims[place] or ""
  end
end

-- The claim of a waiter, with the mode in which it wants this lock.
local function shown(waiter, claim)
  local before, mode, after = string.match(claim, "^(%d+ %d+ )(intent:%d+:%S+)( .*)$")
  if not mode then
    return claim
  end
  local place = call("LPOS", SET .. waiter, name)
  return before .. mode_at(mode, (place or 0) + 1) .. after
end

local from = ARGV[3] == "first" and state.first or tonumber(ARGV[3]) or state.last + 1
local until_place = math.min(state.last, from + 10 * PLACES)
local entries = line(state, from, most, until_place)
for i = 2, #entries, 2 do
  local waiter, its = string.match(entries[i], "^(%S+) (.*)$")
  standing[i - 1], standing[i] = waiter, shown(waiter, its)
end
local next_place = #entries == 2 * most and most > 0 and entries[#entries - 1] + 1
  or until_place + 1
local go_on_at = next_place <= state.last and text(next_place) or "none"
return { text(clock()), state.waiting, count, held, standing, go_on_at }
