-- Of acquire: locks wanted exclusively of which the first has an exclusive holder.

local answer
if not heir and ARGV[3] == "exclusive" and ARGV[7] ~= "0" then
  value = value or call("GET", KEYS[2])
  local space = value and string.find(value, " %d+ %d+ %S+ %d+ %S+ %d+ %d+ ")
  if space and string.sub(value, 1, space - 1) ~= token then
    local wait = tonumber(ARGV[6])
    if wait ~= 0 then
      local most = wait < 0 and "0" or ARGV[6]
      local claim = "0 " .. now .. " exclusive " .. ARGV[2] .. " " .. ARGV[5] .. " " .. most .. " " .. size .. " " .. ARGV[4]
      local kept = now + math.max(ARGV[2], 18000)
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
        ends = kept
        call("RPUSH", tag .. "set:" .. token, unpack(names))
        call("PEXPIREAT", tag .. "set:" .. token, expires)
      end
    end
    answer = ARGV[7] == "2" and "0"
      or "0 " .. now .. " " .. string.format("%.0f", call("PEXPIRETIME", KEYS[2])) .. string.sub(value, space)
  end
end
