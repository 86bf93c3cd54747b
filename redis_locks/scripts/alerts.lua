-- Note which alerts fire, so that of all processes that look one tells of it.
--
-- KEYS: index
-- ARGV: token (not used)
--   2... ms after which to tell again, then the names of all alerts that fire
-- Reply: in turn name, since_ms and "firing", "known" (told before) or "resolved"
--
-- What fires stands in the hash ALERTS of partition 0: name -> "since_ms told_ms".
-- Who has the reply tells. If that one dies first, the next to look after the pause tells again.

--include _prelude
--include _keys

local KEPT_MS = 86400000
local known, reply = {}, {}
local noted = call("HGETALL", ALERTS)
for i = 1, #noted, 2 do
  known[noted[i]] = noted[i + 1]
end

local function say(name, since, state)
  reply[#reply + 1] = name
  reply[#reply + 1] = since
  reply[#reply + 1] = state
end

for i = 3, #ARGV do
  local name, state = ARGV[i], "known"
  local since, told = string.match(known[name] or "", "^(%d+) (%d+)$")
  if not since or told + ARGV[2] <= clock() then
    state, since = "firing", since or text(clock())
    call("HSET", ALERTS, name, since .. " " .. text(clock()))
  end
  known[name] = nil
  say(name, since, state)
end
for name, times in pairs(known) do
  call("HDEL", ALERTS, name)
  say(name, string.match(times, "^%d+"), "resolved")
end
call("PEXPIRE", ALERTS, KEPT_MS)
return reply
