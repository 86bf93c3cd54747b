-- The way of nearly every release, before anything else is set up: one lock, held exclusively,
-- that nobody waits for, or first a single exclusive one that lives. The rest of `release` would
-- come to the same end.

local name = string.sub(KEYS[2], #HOLDER + 1)
local holder, held
if #KEYS == 2 then
  holder, held = exclusive(name)
end
local ended = holder == token

if ended then
  redis.call("DEL", KEYS[2])
  local first = redis.call("LINDEX", QUEUE .. name, 0)
  if not first then
    redis.call("ZREM", index, name)
    return token .. " 1"
  end
  local claim = redis.call("HGET", CLAIMS .. name, first)
  local since, lease, channel, give_up_at, who =
    string.match(claim or "", "^0 (%d+) exclusive (%d+) (%S+) (%d+) 1 (.*)$")
  if since and (give_up_at == "0" or tonumber(give_up_at) > clock()) then
    local ends = clock() + lease
    keep_index(name, ends)
    local fence = text(next_after(math.max(last_fence(name), string.match(held, "^%d+"))))
    if tell(channel, first .. " " .. fence .. " " .. text(now)) > 0 then
      redis.call("LPOP", QUEUE .. name)
      redis.call("HDEL", CLAIMS .. name, first)
      if now - since > WAITS_NOTED_MS then
        redis.call("HDEL", WAITS, session(first))
      end
      hold_alone(name, first, fence, ends, claim_of(fence, "exclusive", lease, channel, 1, who))
      return token .. " 1"
    end
  end
end
