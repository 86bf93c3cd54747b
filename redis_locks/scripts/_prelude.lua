-- Start of every script: the partition, the caller's token and the server's clock.
--
-- KEYS: index, then the hash of each lock of the set (most sets have one lock). All keys of a
-- partition share one hash tag, P{n}, so a script spells the others itself. ARGV: token first.

local call = redis.call
local index, token = KEYS[1], ARGV[1]
local tag = string.sub(index, 1, -6)

local now, now_us

-- The time in ms, read once: a script sees one moment.
local function clock()
  if not now then
    local time = call("TIME")
    now_us = time[1] * 1000000 + time[2]
    now = math.floor(now_us / 1000)
  end
  return now
end

local function text(number)
  return string.format("%.0f", number)
end
