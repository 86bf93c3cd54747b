-- First of release and commit, after `_alone.lua`.

-- Whether the caller holds all the locks, and exclusively.
local function holds()
  local start = token .. " "
  for place = 1, size do
    local held = call("GET", KEYS[place + 1])
    if not held or string.sub(held, 1, #start) ~= start then
      return false
    end
  end
  return true
end

-- End the caller's hold and hand the locks to the one exclusive waiter that stands first for each of them and
-- wants no others, if there is one and it lives. Returns whether that, or that nobody waits, is all there is to it.
local function hand_on()
  call("DEL", unpack(KEYS, 2))
  local first = call("LINDEX", QUEUE .. names[1], 0)
  for place = 2, size do
    if call("LINDEX", QUEUE .. names[place], 0) ~= first then
      return false
    end
  end
  if not first then
    call("ZREM", index, unpack(names))
    return true
  end
  local claim = call("HGET", CLAIMS .. names[1], first) or ""
  local since, lease, listener, wait, wanted, who =
    string.match(claim, "^0 (%d+) exclusive (%d+) (%S+) (%d+) (%d+) (.*)$")
  if not since or tonumber(wanted) ~= size or (wait ~= "0" and since + wait <= clock()) then
    return false
  end
  local fence, at = grant(first, lease, listener, who)
  -- As `tell` does.
  local channel = string.gsub(index, "{%d+}:index$", ":grants:") .. listener
  redis.set_repl(redis.REPL_NONE)
  local heard = call("PUBLISH", channel, first .. " " .. fence .. " " .. at)
  redis.set_repl(redis.REPL_ALL)
  if heard > 0 then
    for place = 1, size do
      call("LPOP", QUEUE .. names[place])
      call("HDEL", CLAIMS .. names[place], first)
    end
    call("HDEL", WAITS, string.match(first, "^(.*)%.") or first)
    if size > 1 then
      call("DEL", SET .. first)
    end
    return true
  end
  -- Nobody listens: the rest of the script drops this waiter.
  call("DEL", unpack(KEYS, 2))
  return false
end
