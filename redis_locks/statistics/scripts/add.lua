-- Add to figures of the buckets of the time at which something happened.
-- Once a bucket has very many figures, new ones are added to those of the rest.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 the process
--   3 the number of the packet, greater than those before it
--   4 how long ago it happened, in ms
--   5... in turn: a figure, "METRIC NAME", and by how much it grows
-- Reply: 1, or 0 if it has come before

--include _stats

if has_come(ARGV[2], ARGV[3]) then
  return 0
end
local age_ms = tonumber(ARGV[4])
for seconds, kept in pairs(KEPT_MS) do
  if age_ms < kept then
    local key = bucket(seconds, number_of(seconds, age_ms))
    local full = redis.call("HLEN", key) >= MOST_FIGURES
    for i = 5, #ARGV, 2 do
      local figure = ARGV[i]
      if full and redis.call("HEXISTS", key, figure) == 0 then
        figure = string.match(figure, "^%S+ ")
      end
      redis.call("HINCRBY", key, figure, ARGV[i + 1])
    end
    redis.call("PEXPIRE", key, text(kept - age_ms))
  end
end
return 1
