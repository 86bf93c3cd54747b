-- Of release and commit: whether the caller holds all the locks, and exclusively.

local ended, start = true, token .. " "
for place = 1, size do
  local held = call("GET", KEYS[place + 1])
  if not held or string.sub(held, 1, #start) ~= start then
    ended = false
  end
end

-- What commit has to say beside that it is done.
local failure = ""
