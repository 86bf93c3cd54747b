-- The way of nearly every release, before anything else is set up: one lock, held exclusively,
-- that nobody waits for. The rest of `release` would come to the same end.

if #KEYS == 2 and exclusive(string.sub(KEYS[2], #HOLDER + 1)) == token then
  local name = string.sub(KEYS[2], #HOLDER + 1)
  if redis.call("EXISTS", QUEUE .. name) == 0 then
    redis.call("DEL", KEYS[2])
    redis.call("ZREM", index, name)
    return token .. " 1"
  end
end
