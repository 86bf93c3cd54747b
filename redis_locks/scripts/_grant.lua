-- Make the heir, if there is one, the exclusive holder: the work of `next_fence` and `hold`.

local FENCE, fence = tag .. "fence:", now_us
if heir then
  local last = 0
  for place = 1, size do
    local kept = call("GET", FENCE .. names[place])
    if kept then
      last = math.max(last, tonumber(kept) or math.huge)
    end
  end
  ends = now + lease
  if last == math.huge then
    -- A string that is not ours: the rest of the script says so.
    heir, ends = nil, nil
  elseif last >= tonumber(now_us) then
    fence = string.format("%.0f", last + 1)
  end
end

if ends then
  -- As `keep_index` does; before the locks are taken, should there be a key of a foreign type.
  for place = 1, size do
    call("ZADD", index, "GT", ends, names[place])
  end
  local listed = call("PEXPIRETIME", index)
  if listed < ends then
    call("PEXPIREAT", index, string.format("%.0f", ends + 60000))
    if listed > 0 then
      call("ZREMRANGEBYSCORE", index, "-inf", "(" .. now)
    end
  end
end

local granted = fence .. " " .. now
if heir then
  local claim = " " .. granted .. " exclusive " .. lease .. " " .. listener .. " 0 " .. size .. " " .. who
  -- 16 more belong to it: see FENCE_RESERVED.
  local reserved = string.format("%.0f", fence + 16)
  -- Not "PX": the clock of Redis 7.0 goes on while a script runs.
  local expires = string.format("%.0f", ends)
  for place = 1, size do
    call("SET", FENCE .. names[place], reserved, "PX", "3600000")
    call("SET", KEYS[place + 1], heir .. claim, "PXAT", expires)
  end
end
