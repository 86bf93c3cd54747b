-- Take a free lock, or join the queue. Safe to repeat: the token keeps its hold or its place.
--
-- KEYS: holders queue claims fence index
-- ARGV: token name
--   3 lease, ms
--   4 mode
--   5 who, JSON for people
--   6 channel on which the caller listens
--   7 wait, ms: 0 do not join the queue, -1 wait for ever
-- Reply: granted  {token, 1, fencing token, now ms}
--        not      {token, 0, now ms, lease end of the holder ms, claim of the holder}
--        (the claim only when wait is 0: others learn it if they give up)

local lease, mode, who, channel, wait = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

local holder, ends = living_holder()

if holder == token then
  local claim = read_claim(token)
  if now + lease > ends then
    redis.call("ZADD", holders, text(now + lease), token)
    keep_until(holders, now + lease)
    keep_until(claims, now + lease)
    keep_index(now + lease)
  end
  return { token, 1, claim.fence, text(now) }
end

if not holder and redis.call("EXISTS", queue) == 0 then
  local fence = next_fence()
  grant(token, fence, mode, lease, channel, who)
  return { token, 1, fence, text(now) }
end

if wait ~= 0 then
  local last = redis.call("ZRANGE", queue, -1, -1, "WITHSCORES")[2]
  local joined = redis.call("ZADD", queue, "NX", text((tonumber(last) or 0) + 1), token) == 1
  local since = text(now)
  if not joined then
    local claim = read_claim(token)
    since = claim and claim.since or since
  end
  local give_up_at = wait < 0 and "0" or text(now + wait)
  write_claim(token, 0, since, mode, lease, channel, give_up_at, who)
  local kept = now + math.max(lease, WAITER_KEPT_MS)
  keep_until(queue, kept)
  keep_until(claims, kept)
  keep_index(kept)
end

if not holder then
  local granted, fence = hand_off(token)
  if granted == token then
    return { token, 1, fence, text(now) }
  end
  if not granted then
    -- Only the dead stood in line, and the caller did not.
    fence = next_fence()
    grant(token, fence, mode, lease, channel, who)
    return { token, 1, fence, text(now) }
  end
  holder, ends = living_holder()
end

local claim = wait == 0 and redis.call("HGET", claims, holder) or ""
return { token, 0, text(now), text(ends), claim or "" }
