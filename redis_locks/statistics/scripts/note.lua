-- Note what has happened to locks.
--
-- KEYS: index
-- ARGV: token (not used)
--   2... in turn: name, 1 if it happens frequently, how long ago in ms, and JSON that people read
-- Reply: 1

--include _stats

for i = 2, #ARGV, 4 do
  local name, which = ARGV[i], ARGV[i + 1] + 1
  local key = LISTS[which] .. name
  redis.call("LPUSH", key, text(clock() - ARGV[i + 2]) .. " " .. ARGV[i + 3])
  redis.call("LTRIM", key, 0, MOST_NOTES[which] - 1)
  redis.call("PEXPIRE", key, NOTES_KEPT_MS)
  redis.call("ZADD", NOTED, text(clock()), name)
end
redis.call("PEXPIRE", NOTED, NOTES_KEPT_MS)
local surplus = redis.call("ZCARD", NOTED) - MOST_NOTED
if surplus > 0 then
  local forgotten = redis.call("ZPOPMIN", NOTED, surplus)
  for i = 1, #forgotten, 2 do
    redis.call("DEL", LISTS[1] .. forgotten[i], LISTS[2] .. forgotten[i])
  end
end
return 1
