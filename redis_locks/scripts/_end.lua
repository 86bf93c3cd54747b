-- Of release and commit: the exclusive holder of all the locks ends its hold, and nobody waits for them, or one waiter
-- stands first that wants just these, exclusively. Comes before the other parts, as in `acquire.lua`. A lease that ended
-- while nobody else asked still counts. `alone`: whether the caller is that holder; `before_end` runs first.

local states, alone, waiting, first = {}, true, 0, nil
for place = 2, #KEYS do
  local found = call("HMGET", KEYS[place], "state", "holder")
  local state = { string.match(found[1] or NEW_STATE, STATE) }
  alone = alone and found[2] and string.sub(found[2], 1, #token + 1) == token .. " "
  alone = alone and state[1] == PROTOCOL and state[8] == "0"
  waiting = waiting + (tonumber(state[7] or 0))
  states[place] = state
end
if alone and before_end then
  before_end()
end
if alone and waiting == 0 then
  for place = 2, #KEYS do
    call("HDEL", KEYS[place], "holder", "claim", "who", "label")
  end
  call("ZREM", index, unpack(all))
  return token .. " 1" .. failure
end
if alone then
  -- Who stands first for all of them, and its claim.
  for place = 2, #KEYS do
    local entry = states[place][7] ~= "0" and call("HGET", KEYS[place], states[place][5])
    if place == 2 then
      first = entry
    elseif entry ~= first then
      first = nil
    end
  end
  local heir, since, lease, listener, wait, size, who
  if first then
    heir, since, lease, listener, wait, size, who =
      string.match(first, "^(%S+) 0 (%d+) exclusive (%d+) (%S+) (%d+) (%d+) (.*)$")
  end
  if heir and tonumber(size) == #all and (wait == "0" or since + wait > clock()) then
    local last_fence, ends = 0, clock() + lease
    for place = 2, #KEYS do
      local state = states[place]
      -- Frees memory, so that the rest is done even if the server is out of it.
      call("HDEL", KEYS[place], "holder", "claim", "who", "label", state[5], heir)
      last_fence = math.max(last_fence, tonumber(state[3]))
      state[5], state[7] = state[5] + 1, state[7] - 1
      if state[7] == 0 then
        state[5], state[6] = 1, 0
      end
    end
    if now - since > NOTED_AFTER_MS then
      call("HDEL", WAITS, string.match(heir, "^(.*)%.") or heir)
    end
    list(all, ends)
    local fence = text(math.max(last_fence + 1, now_us))
    local heard = tell(listener, heir .. " " .. fence .. " " .. now) > 0
    local claim = fence .. " " .. now .. " exclusive " .. lease .. " " .. listener .. " 0 " .. size
    for place = 2, #KEYS do
      local state = states[place]
      if heard then
        write_holder(KEYS[place], state, fence, heir, ends, claim, who)
      else
        -- Its fencing tokens are out of use, as in `grant`.
        local told = text(fence + FENCE_RESERVED)
        write(KEYS[place], ends, state[2], told, tonumber(state[4]), state[5], state[6], state[7], state[8])
      end
    end
    if #all > 1 then
      call("DEL", SET .. heir)
    end
    if heard then
      return token .. " 1" .. failure
    end
    -- It died: the rest of the script looks for the next one.
  end
end
