-- Read one lock: its holders and its queue in order. Forgets sharers whose lease has ended.
--
-- KEYS: index lock
-- ARGV: token (not used)
--   2 most waiters to return, and most holders
-- Reply: {now ms, number of waiters, number of holders, {token, lease end ms, claim, ...}, {token, claim, ...}}

--include _prelude
--include _lock
--include _modes
--include _queue

local most = tonumber(ARGV[2])
local name = all[1]
local state = state_of(name)
local held, standing, count = {}, {}, 1
local holder, claim, ends = exclusive(name)
if holder then
  held = { holder, text(ends), claim }
else
  count = sharers(name)
  local found = call("ZRANGE", SHARERS .. name, 0, math.max(most, 1) - 1, "WITHSCORES")
  for i = 1, #found, 2 do
    held[#held + 1] = found[i]
    held[#held + 1] = found[i + 1]
    held[#held + 1] = sharer_claim(name, found[i]) or ""
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

local entries = line(state, state.first, most)
for i = 2, #entries, 2 do
  local waiter, its = string.match(entries[i], "^(%S+) (.*)$")
  standing[i - 1], standing[i] = waiter, shown(waiter, its)
end
return { text(clock()), state.waiting, count, held, standing }
