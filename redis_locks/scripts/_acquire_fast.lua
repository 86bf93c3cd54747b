-- The way of nearly every acquire: one lock, exclusive, that is free or has an exclusive holder. The
-- rest of `acquire` would come to the same end.

if ARGV[3] == "exclusive" and #KEYS == 2 then
  if call("EXISTS", key, sharers, queue) == 0 then
    local fence, at = grant(token, ARGV[2], ARGV[5], ARGV[4])
    return token .. " 1 " .. fence .. " " .. at
  end
  local value = ARGV[7] == "1" and call("GET", key)
  local space = value and string.find(value, " %d+ %d+ %S+ %d+ %S+ %d+ %d+ ")
  if space and string.sub(value, 1, space - 1) ~= token then
    local lease, wait = ARGV[2], tonumber(ARGV[6])
    local at = string.format("%.0f", clock())
    if wait ~= 0 then
      local most = wait < 0 and "0" or ARGV[6]
      local claim = "0 " .. at .. " exclusive " .. lease .. " " .. ARGV[5] .. " " .. most .. " 1 " .. ARGV[4]
      call("HSET", claims, token, claim)
      local joined = redis.pcall("RPUSH", queue, token)
      if type(joined) == "table" then
        -- A key of a foreign type: leave nothing behind.
        call("HDEL", claims, token)
        error(joined)
      end
      local kept = now + math.max(lease, 6000)
      if call("PEXPIRETIME", queue) < kept then
        local expires = string.format("%.0f", kept + 4000)
        call("PEXPIREAT", queue, expires)
        if call("PEXPIRETIME", claims) < kept + 4000 then
          call("PEXPIREAT", claims, expires)
        end
      end
    end
    return token .. " 0 " .. at .. " " .. string.format("%.0f", call("PEXPIRETIME", key)) .. string.sub(value, space)
  end
end
