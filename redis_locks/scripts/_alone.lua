-- First of acquire and release, before the prelude is set up: how nearly every lock is granted, to
-- one exclusive holder. As each call and each function that is defined costs a script some 0.1 us, it does
-- the work of `next_fence` and `hold` in one piece; a test holds them against each other.

local call = redis.call
local index, key, token = KEYS[1], KEYS[2], ARGV[1]
local tag = string.sub(index, 1, -6)
local name = string.sub(key, #tag + 8)
local queue, claims, sharers = tag .. "queue:" .. name, tag .. "claims:" .. name, tag .. "sharers:" .. name
local waits = tag .. "waits"
local now, now_us

-- The time in ms.
local function clock()
  local time = call("TIME")
  now_us = time[1] * 1000000 + time[2]
  now = math.floor(now_us / 1000)
  return now
end

-- Make `holder` the holder and return its fencing token and the time.
local function grant(holder, lease, listener, who)
  local ends = clock() + lease
  call("ZADD", index, "GT", ends, name)
  local expires = call("PEXPIRETIME", index)
  if expires < ends then
    -- Rarely reached, thanks to the slack: the place to forget locks whose holders crashed.
    call("PEXPIREAT", index, string.format("%.0f", ends + 60000))
    if expires > 0 then
      call("ZREMRANGEBYSCORE", index, "-inf", string.format("%.0f", now - 1))
    end
  end
  -- Before anything is written: a key of a foreign type stops the script while nobody holds.
  local fence_key = tag .. "fence:" .. name
  local last = tonumber(call("GET", fence_key) or 0)
  if not last then
    error({ err = "WRONGTYPE " .. fence_key .. " holds a string that is not ours" })
  end
  local fence = string.format("%.0f", math.max(last + 1, now_us))
  local at = string.format("%.0f", now)
  -- 16 more belong to it: see FENCE_RESERVED.
  call("SET", fence_key, string.format("%.0f", fence + 16), "PX", 3600000)
  local claim = fence .. " " .. at .. " exclusive " .. lease .. " " .. listener .. " 0 1 " .. who
  call("SET", key, holder .. " " .. claim, "PX", lease)
  return fence, at
end
