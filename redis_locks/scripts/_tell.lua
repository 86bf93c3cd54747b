-- Tell the heir, if it is to be told by a message, as `tell` does.

local heard = 0
if heir and tail then
  local channel = string.gsub(index, "{%d+}:index$", ":grants:") .. listener
  redis.set_repl(redis.REPL_NONE)
  heard = call("PUBLISH", channel, heir .. " " .. granted .. tail)
  redis.set_repl(redis.REPL_ALL)
end
