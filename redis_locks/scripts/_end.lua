-- Of release and commit: the exclusive holder of all the locks ends its hold, and nobody waits for
-- them, or one waiter stands first that wants just these, exclusively. Comes before any function,
-- as in `acquire.lua`. A lease that ended while nobody else asked still counts. `alone`: whether
-- the caller is that holder; `before_end` runs first.

local states, alone, waited_for = {}, true, false
for place = 2, #KEYS do
  local found = call("HMGET", KEYS[place], "holder", "line", "state")
  alone = alone and found[1] and string.sub(found[1], 1, #token + 1) == token .. " "
  waited_for = waited_for or found[2]
  states[place] = found
end
if alone and before_end then
  before_end()
end
if alone and not waited_for then
  local names = {}
  for place = 2, #KEYS do
    call("HDEL", KEYS[place], "holder", "claim", "who", "label")
    names[place - 1] = string.sub(KEYS[place], #index + 1)
  end
  call("ZREM", index, unpack(names))
  return token .. " 1" .. failure
end

--include _messages
--include _claim

if alone then
  -- Who stands first for all of them, and its claim.
  local entry
  for place = 2, #KEYS do
    local found = states[place]
    local first, last, waiting = string.match(found[2] or "", LINE)
    local its = first and call("HGET", KEYS[place], first)
    if place > 2 and its ~= entry then
      its = nil
    end
    entry = its
    states[place] = { state = found[3], first = first, last = last, waiting = waiting }
  end
  local holder, _, since, mode, lease, listener, wait, size, who = string.match(entry or "", ENTRY)
  if mode == "exclusive" and tonumber(size) == #KEYS - 1 then
    local time = call("TIME")
    now_us = time[1] * 1000000 + time[2]
    now = math.floor(now_us / 1000)
    local usual, ends, last_fence = wait == "0" or since + wait > now, now + lease, 0
    local now_ms, ends_ms = string.format("%.0f", now), string.format("%.0f", ends)
    local expiries, lines, listed = {}, {}, {}
    for place = 2, #KEYS do
      local number, shared_until, fence, expires, sharers = string.match(states[place].state, STATE)
      -- An expiry that is due is for the rest of the script.
      usual = usual and number == PROTOCOL and sharers == "0"
        and tonumber(expires) >= ends + FENCE_KEPT_MS
      last_fence, expiries[place] = math.max(last_fence, tonumber(fence or 0)), expires
      listed[2 * place - 3], listed[2 * place - 2] = ends_ms, string.sub(KEYS[place], #index + 1)
    end
    if usual and call("PEXPIRETIME", index) >= ends then
      for place = 2, #KEYS do
        local first, last, waiting = states[place].first, states[place].last, states[place].waiting
        lines[place] = waiting ~= "1" and first + 1 .. " " .. last .. " " .. waiting - 1
        -- Frees memory, so that the rest is done even if the server is out of it.
        call("HDEL", KEYS[place], "holder", "claim", "who", "label", "line", first, holder)
      end
      if now - since > NOTED_AFTER_MS then
        local session = string.match(holder, "^(.*)%.") or holder
        call("HDEL", string.sub(index, 1, -6) .. WAITS_KEY, session)
      end
      if #KEYS > 2 then
        call("DEL", string.sub(index, 1, -6) .. SET_KEY .. holder)
      end
      call("ZADD", index, "GT", unpack(listed))
      local fence = string.format("%.0f", math.max(last_fence + 1, now_us))
      if tell(listener, holder .. " " .. fence .. " " .. now_ms) > 0 then
--include _exclusive
        return token .. " 1" .. failure
      end
      -- It died: the rest of the script looks for the next one.
      -- Its fencing token is out of use, as in `grant`.
      for place = 2, #KEYS do
        local state = PROTOCOL .. " 0 " .. fence .. " " .. expiries[place] .. " 0"
        call("HSET", KEYS[place], "state", state)
        if lines[place] then
          call("HSET", KEYS[place], "line", lines[place])
        end
      end
    end
  end
end

