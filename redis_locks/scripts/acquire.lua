-- Take a free lock, or join the queue. Safe to repeat: a token keeps its hold or its place.
--
-- KEYS: holder queue claims fence index
-- ARGV: token name
--   3 lease, ms
--   4 mode
--   5 who, JSON for people
--   6 channel on which the caller listens
--   7 wait, ms: 0 do not join the queue, -1 wait for ever
-- Reply: "token 1 fence now"        granted; now in ms
--        "token 0 now ends claim"   not; when the holder's lease ends in ms, and its claim

local lease, mode, who, channel, wait = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

local holder, claim = read_holder()

if holder == token then
  -- The reply to an earlier try was lost.
  if redis.call("PEXPIREAT", holder_key, text(now + lease), "GT") == 1 then
    keep_index(now + lease)
  end
  return token .. " 1 " .. string.match(claim, "^%d+") .. " " .. text(now)
end

local rest = mode .. " " .. ARGV[3] .. " " .. channel

if not holder and redis.call("EXISTS", queue) == 0 then
  local fence = prepare_grant(lease)
  grant(token, fence, lease, rest, who)
  return token .. " 1 " .. fence .. " " .. text(now)
end

if wait ~= 0 then
  local give_up_at = wait < 0 and "0" or text(now + wait)
  local mine = " " .. rest .. " " .. give_up_at .. " " .. who
  -- In line already: keep place and time, but listen where the caller listens now.
  local earlier = redis.call("HGET", claims, token)
  local since = earlier and string.match(earlier, "^%d+ (%d+)") or text(now)
  if not earlier then
    -- Before the claim: should a key of a foreign type stop the script, nothing is left.
    redis.call("RPUSH", queue, token)
  end
  redis.call("HSET", claims, token, "0 " .. since .. mine)
  local kept = now + math.max(lease, WAITER_KEPT_MS)
  if redis.call("PEXPIRETIME", claims) < kept or redis.call("PEXPIRETIME", queue) < kept then
    redis.call("PEXPIREAT", claims, text(kept + WAITER_SLACK_MS))
    redis.call("PEXPIREAT", queue, text(kept + WAITER_SLACK_MS))
  end
end

if not holder then
  local granted, fence = hand_off(token)
  if not granted then
    -- Only the dead stood in line, and the caller did not.
    fence = prepare_grant(lease)
    grant(token, fence, lease, rest, who)
    granted = token
  end
  if granted == token then
    return token .. " 1 " .. fence .. " " .. text(now)
  end
  holder, claim = read_holder()
end

return token .. " 0 " .. text(now) .. " " .. text(redis.call("PEXPIRETIME", holder_key)) .. " " .. claim
