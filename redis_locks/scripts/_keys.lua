-- What all parts share: how keys are spelled, the clock, what all versions keep, and the index.

-- So many of what is over are forgotten at once: leases of sharers, and names in the index.
local MOST_FORGOTTEN = 100
local INDEX_SLACK_MS = 60000

local tag = string.sub(index, 1, -6)
local LOCK, SHARERS = tag .. "lock:", tag .. "sharers:"
local SET, DONE, LATE = tag .. SET_KEY, tag .. DONE_KEY, tag .. LATE_KEY
local WAITS, LOOKS, ALERTS = tag .. WAITS_KEY, tag .. "looks", tag .. "alerts"

-- The names of the locks, in the caller's order.
local all = {}
for place = 2, #KEYS do
  all[place - 1] = string.sub(KEYS[place], #LOCK + 1)
end

-- The time in ms, read once: a script sees one moment.
local function clock()
  if not now then
    local time = call("TIME")
    now_us = time[1] * 1000000 + time[2]
    now = math.floor(now_us / 1000)
  end
  return now
end

-- A number of more than 14 digits as text; Lua writes shorter ones so by itself.
local function text(number)
  return string.format("%.0f", number)
end

-- What versions can read of each other's locks:
-- the number of the protocol, the fence, and when the last lease ends (ms).
local function common(state, holder)
  local number, shared_until, fence = string.match(state, "^(%S+) (%d+) (%d+)")
  local held_until = string.match(holder or "", "^%S+ (%d+)")
  local ends = math.max(tonumber(shared_until or 0), tonumber(held_until or 0))
  return number or "?", fence or "0", ends
end

-- List locks as held or waited for until `ends` at least.
local function list(locks, ends)
  if #locks == 1 then
    call("ZADD", index, "GT", ends, locks[1])
  else
    local scores = {}
    for place, name in ipairs(locks) do
      scores[2 * place - 1], scores[2 * place] = ends, name
    end
    call("ZADD", index, "GT", unpack(scores))
  end
  if call("PEXPIRETIME", index) < ends then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed. The
    -- member without a name, which is the first, keeps the key, and so its expiry, when no lock is
    -- listed.
    call("ZADD", index, 0, "")
    local over = call("ZCOUNT", index, "(0", clock() - 1)
    call("ZREMRANGEBYRANK", index, 1, math.min(over, MOST_FORGOTTEN))
    -- If more are over, the next acquire comes here, too.
    local rest = call("ZCOUNT", index, "(0", clock() - 1) > 0
    call("PEXPIREAT", index, ends + (rest and 0 or INDEX_SLACK_MS))
  end
end
