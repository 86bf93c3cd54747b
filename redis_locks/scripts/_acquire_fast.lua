-- The way of nearly every acquire: locks wanted exclusively that are free, or of which the first has an
-- exclusive holder. The rest of `acquire` would come to the same end.

if ARGV[3] == "exclusive" then
  local keys = {}
  for place = 1, size do
    local name, at = names[place], 3 * place
    keys[at - 2], keys[at - 1], keys[at] = KEYS[place + 1], SHARERS .. name, QUEUE .. name
  end
  if call("EXISTS", unpack(keys)) == 0 then
    local fence, at = grant(token, ARGV[2], ARGV[5], ARGV[4])
    return token .. " 1 " .. fence .. " " .. at
  end
  local value = ARGV[7] == "1" and call("GET", KEYS[2])
  local space = value and string.find(value, " %d+ %d+ %S+ %d+ %S+ %d+ %d+ ")
  if space and string.sub(value, 1, space - 1) ~= token then
    local lease, wait = ARGV[2], tonumber(ARGV[6])
    local at = string.format("%.0f", clock())
    if wait ~= 0 then
      local most = wait < 0 and "0" or ARGV[6]
      local claim = "0 " .. at .. " exclusive " .. lease .. " " .. ARGV[5] .. " " .. most .. " " .. size .. " " .. ARGV[4]
      local kept = now + math.max(lease, 6000)
      local expires = string.format("%.0f", kept + 4000)
      for place = 1, size do
        local queue, claims = QUEUE .. names[place], CLAIMS .. names[place]
        call("HSET", claims, token, claim)
        local joined = redis.pcall("RPUSH", queue, token)
        if type(joined) == "table" then
          -- A key of a foreign type: leave nothing behind.
          call("HDEL", claims, token)
          for before = 1, place - 1 do
            call("HDEL", CLAIMS .. names[before], token)
            call("LREM", QUEUE .. names[before], 1, token)
          end
          error(joined)
        end
        if call("PEXPIRETIME", queue) < kept then
          call("PEXPIREAT", queue, expires)
          if call("PEXPIRETIME", claims) < kept + 4000 then
            call("PEXPIREAT", claims, expires)
          end
        end
      end
      if size > 1 then
        -- A lock of the set may have no holder, who lists it else.
        list(kept)
        call("RPUSH", SET .. token, unpack(names))
        call("PEXPIREAT", SET .. token, expires)
      end
    end
    return token .. " 0 " .. at .. " " .. string.format("%.0f", call("PEXPIRETIME", KEYS[2])) .. string.sub(value, space)
  end
end
