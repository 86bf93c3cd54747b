-- List the locks with long waits, oldest first, and count all that are listed. Changes nothing.
-- A waiter that asks again notes the lock: see `join` in `acquire`.
-- So this finds the few in trouble among a million.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 most locks to return
-- Reply: {how many locks are held or waited for, a name, since when a waiter has waited for it in
-- ms, ...}. The lock may be free by now, and that waiter gone.

--include _prelude
--include _lock

-- Each waiter asks again within a window,
-- so the window before this one has all that are still there.
local window = math.floor(clock() / LONG_WAITS_MS)
local since, names = {}, {}
for each = window - 1, window do
  local noted = call("ZRANGE", LONG_WAITS .. each, 0, ARGV[2] - 1, "WITHSCORES")
  for i = 1, #noted, 2 do
    local name, its = noted[i], tonumber(noted[i + 1])
    if not since[name] then
      names[#names + 1] = name
    end
    since[name] = math.min(since[name] or its, its)
  end
end
table.sort(names, function(one, other)
  return since[one] < since[other]
end)
local reply = { call("ZCOUNT", index, text(clock()), "+inf") }
for place = 1, math.min(#names, tonumber(ARGV[2])) do
  reply[2 * place], reply[2 * place + 1] = names[place], text(since[names[place]])
end
return reply
