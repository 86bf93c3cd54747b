-- The way of nearly every acquire, before anything else is set up: one lock, exclusive, that
-- nobody holds or waits for. The rest of `acquire` would come to the same end.

local lease, mode, who, channel, wait = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])

local function granted(fence)
  return token .. " 1 " .. fence .. " " .. text(clock())
end

if mode == "exclusive" and #KEYS == 2 then
  local name = string.sub(KEYS[2], #HOLDER + 1)
  if redis.call("EXISTS", KEYS[2], SHARERS .. name, QUEUE .. name) == 0 then
    local ends = clock() + lease
    keep_index(name, ends)
    local fence = text(fence_of(name))
    hold_alone(name, token, fence, ends, claim_of(fence, mode, ARGV[2], channel, 1, who))
    return granted(fence)
  end
end
