-- Of release and commit: tell the heir, as `tell` does, and take it out of the queues.

if heir then
  local channel = string.gsub(index, "{%d+}:index$", ":grants:") .. listener
  redis.set_repl(redis.REPL_NONE)
  local heard = call("PUBLISH", channel, heir .. " " .. granted)
  redis.set_repl(redis.REPL_ALL)
  if heard > 0 then
    for place = 1, size do
      call("LPOP", QUEUE .. names[place])
      call("HDEL", CLAIMS .. names[place], heir)
    end
    call("HDEL", tag .. "waits", string.match(heir, "^(.*)%.") or heir)
    if size > 1 then
      call("DEL", tag .. "set:" .. heir)
    end
    return token .. " 1" .. failure
  end
  -- Nobody listens: the rest of the script drops this waiter.
  call("DEL", unpack(KEYS, 2))
end
