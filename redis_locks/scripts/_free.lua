-- Of acquire: locks wanted exclusively that are free.

-- Who reads no reply expects the first to be held: then that is looked at first, and nothing else.
local value = ARGV[7] == "2" and call("GET", KEYS[2])
if ARGV[3] == "exclusive" and not value then
  local SHARERS, occupied = tag .. "sharers:", 0
  for place = 1, size do
    local name = names[place]
    occupied = occupied + call("EXISTS", KEYS[place + 1], SHARERS .. name, QUEUE .. name)
  end
  if occupied == 0 then
    heir, lease, listener, who = token, ARGV[2], ARGV[5], ARGV[4]
    tail = ARGV[7] == "2" and " 1"
  end
end
