-- The way of nearly every release: one lock, held exclusively, that nobody waits for, or first a
-- single exclusive waiter that lives. The rest of `release` would come to the same end.

local ended = false

if #KEYS == 2 then
  local held = call("GET", key)
  local start = token .. " "
  if held and string.sub(held, 1, #start) == start then
    ended = true
    call("DEL", key)
    local first = call("LINDEX", queue, 0)
    if not first then
      call("ZREM", index, name)
      return token .. " 1"
    end
    local claim = call("HGET", claims, first) or ""
    local since, lease, listener, wait, who = string.match(claim, "^0 (%d+) exclusive (%d+) (%S+) (%d+) 1 (.*)$")
    if since and (wait == "0" or since + wait > clock()) then
      local fence, at = grant(first, lease, listener, who)
      -- As `tell` does.
      local channel = string.gsub(index, "{%d+}:index$", ":grants:") .. listener
      redis.set_repl(redis.REPL_NONE)
      local heard = call("PUBLISH", channel, first .. " " .. fence .. " " .. at)
      redis.set_repl(redis.REPL_ALL)
      if heard > 0 then
        call("LPOP", queue)
        call("HDEL", claims, first)
        call("HDEL", waits, string.match(first, "^(.*)%.") or first)
        return token .. " 1"
      end
      -- Nobody listens: the rest of `release` drops this waiter.
      call("DEL", key)
    end
  end
end
