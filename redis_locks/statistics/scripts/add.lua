-- Add to figures of the buckets of this moment.
-- Once a bucket has very many figures, new ones are added to those of the rest.
--
-- KEYS: index
-- ARGV: token (not used)
--   2... in turn: a figure, "METRIC NAME", and by how much it grows
-- Reply: 1

--include _stats

for seconds, kept in pairs(KEPT_MS) do
  local key = bucket(seconds, number_of(seconds))
  local full = redis.call("HLEN", key) >= MOST_FIGURES
  for i = 2, #ARGV, 2 do
    local figure = ARGV[i]
    if full and redis.call("HEXISTS", key, figure) == 0 then
      figure = string.match(figure, "^%S+ ")
    end
    redis.call("HINCRBY", key, figure, ARGV[i + 1])
  end
  redis.call("PEXPIRE", key, kept)
end
return 1
