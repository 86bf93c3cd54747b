-- Of release and commit: the heir heard of it, and waits no more.

if heir then
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
