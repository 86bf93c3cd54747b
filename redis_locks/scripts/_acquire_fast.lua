-- The way of nearly every acquire, before anything else is set up: one lock, exclusive, that
-- is free or has an exclusive holder. The rest of `acquire` would come to the same end.

local lease, mode, who, channel, wait = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])

local function granted(fence)
  return token .. " 1 " .. fence .. " " .. text(clock())
end

if mode == "exclusive" and #KEYS == 2 then
  local name = string.sub(KEYS[2], #HOLDER + 1)
  if redis.call("EXISTS", KEYS[2], SHARERS .. name, QUEUE .. name) == 0 then
    local ends = clock() + lease
    keep_index(name, ends)
    local fence = text(next_after(last_fence(name)))
    hold_alone(name, token, fence, ends, claim_of(fence, mode, ARGV[2], channel, 1, who))
    return granted(fence)
  end
  local holder, claim = exclusive(name)
  if holder and holder ~= token and ARGV[7] == "1" then
    if wait ~= 0 then
      local kept = clock() + math.max(lease, WAITER_KEPT_MS)
      local give_up_at = wait < 0 and "0" or text(now + wait)
      redis.call("HSET", CLAIMS .. name, token, waiting_claim(text(now), mode, ARGV[2], channel, give_up_at, 1, who))
      local joined = redis.pcall("RPUSH", QUEUE .. name, token)
      if type(joined) == "table" then
        -- A key of a foreign type: leave nothing behind.
        redis.call("HDEL", CLAIMS .. name, token)
        error(joined)
      end
      keep_queue(name, kept)
    end
    return token .. " 0 " .. text(clock()) .. " " .. text(redis.call("PEXPIRETIME", KEYS[2])) .. " " .. claim
  end
end
