-- First of acquire, release and commit, before the prelude is set up: how nearly every lock, or set of
-- locks, is granted, to one exclusive holder. As each call and each function that is defined costs a script
-- some 0.1 us, it does the work of `next_fence` and `hold` in one piece; a test holds them against each other.

local call = redis.call
local index, token = KEYS[1], ARGV[1]
local tag = string.sub(index, 1, -6)
local QUEUE, CLAIMS, SHARERS, FENCE = tag .. "queue:", tag .. "claims:", tag .. "sharers:", tag .. "fence:"
local SET, DONE, WAITS = tag .. "set:", tag .. "done:", tag .. "waits"
local names, size = {}, #KEYS - 1
for place = 1, size do
  names[place] = string.sub(KEYS[place + 1], #tag + 8)
end
local now, now_us

-- The time in ms.
local function clock()
  local time = call("TIME")
  now_us = time[1] * 1000000 + time[2]
  now = math.floor(now_us / 1000)
  return now
end

-- List the locks as held, or waited for, until `ends` at least.
local function list(ends)
  for place = 1, size do
    call("ZADD", index, "GT", ends, names[place])
  end
  local expires = call("PEXPIRETIME", index)
  if expires < ends then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed.
    call("PEXPIREAT", index, string.format("%.0f", ends + 60000))
    if expires > 0 then
      call("ZREMRANGEBYSCORE", index, "-inf", string.format("%.0f", now - 1))
    end
  end
end

-- Make `holder` the holder and return its fencing token and the time.
local function grant(holder, lease, listener, who)
  local ends = clock() + lease
  list(ends)
  -- Before anything is written: a key of a foreign type stops the script while nobody holds.
  local last = 0
  for place = 1, size do
    local fence_key = FENCE .. names[place]
    local fence = tonumber(call("GET", fence_key) or 0)
    if not fence then
      error({ err = "WRONGTYPE " .. fence_key .. " holds a string that is not ours" })
    end
    last = math.max(last, fence)
  end
  local fence = string.format("%.0f", math.max(last + 1, now_us))
  local at = string.format("%.0f", now)
  -- 16 more belong to it: see FENCE_RESERVED.
  local reserved = string.format("%.0f", fence + 16)
  local claim = fence .. " " .. at .. " exclusive " .. lease .. " " .. listener .. " 0 " .. size .. " " .. who
  -- Not "PX": the clock of Redis 7.0 goes on while a script runs.
  local expires = string.format("%.0f", ends)
  for place = 1, size do
    call("SET", FENCE .. names[place], reserved, "PX", 3600000)
    call("SET", KEYS[place + 1], holder .. " " .. claim, "PXAT", expires)
  end
  return fence, at
end
