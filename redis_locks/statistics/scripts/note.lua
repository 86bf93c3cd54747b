-- Note what has happened to locks.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 the process
--   3 the number of the packet, greater than those before it
--   4 how many ends of holds are kept for each lock
--   5... in turn: name, "frequent", "notable" or "ended", how long ago in ms, and JSON that people
--     read; of a deadlock, no name, and "circles"
-- Reply: 1, or 0 if it has come before

--include _stats

if has_come(ARGV[2], ARGV[3]) then
  return 0
end
for i = 5, #ARGV, 4 do
  local name, kept = ARGV[i], ARGV[i + 1]
  local key = list_of(kept, name)
  redis.call("LPUSH", key, text(clock() - ARGV[i + 2]) .. " " .. ARGV[i + 3])
  redis.call("LTRIM", key, 0, (MOST_NOTES[kept] or ARGV[4]) - 1)
  redis.call("PEXPIRE", key, kept == "circles" and CIRCLES_KEPT_MS or NOTES_KEPT_MS)
  if name ~= "" then
    redis.call("ZADD", NOTED, text(clock()), name)
  end
end
redis.call("PEXPIRE", NOTED, NOTES_KEPT_MS)
local surplus = redis.call("ZCARD", NOTED) - MOST_NOTED
if surplus > 0 then
  local forgotten = redis.call("ZPOPMIN", NOTED, surplus)
  for i = 1, #forgotten, 2 do
    local name = forgotten[i]
    redis.call("DEL", list_of("notable", name), list_of("frequent", name), list_of("ended", name))
  end
end
return 1
