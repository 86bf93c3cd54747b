-- Tell the heir, if it is to be told by a message, as `tell` does.

local heard = 0
if heir and tail then
  local channel = string.gsub(index, "{%d+}:index$", ":grants:") .. listener
  redis.set_repl(redis.REPL_NONE)
  heard = call("PUBLISH", channel, heir .. " " .. granted .. tail)
  if string.sub(listener, -1) == "+" then
    redis.pcall("RPUSH", tag .. "turn:" .. heir, fence)
    redis.pcall("PEXPIRE", tag .. "turn:" .. heir, "100")
  end
  redis.set_repl(redis.REPL_ALL)
end
