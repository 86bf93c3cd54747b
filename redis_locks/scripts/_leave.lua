-- Of release and commit: the caller holds no more; nobody waits for the locks.

-- Who stands first for all of them, and whether that is so of one, or of nobody.
local first, same = nil, ended
if ended then
  call("DEL", unpack(KEYS, 2))
  first = call("LINDEX", QUEUE .. names[1], 0)
  for place = 2, size do
    same = same and call("LINDEX", QUEUE .. names[place], 0) == first
  end
  if same and not first then
    call("ZREM", index, unpack(names))
    return token .. " 1" .. failure
  end
end
