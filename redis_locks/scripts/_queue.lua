-- Shared start of the scripts that touch the queue, after `_prelude.lua`.

-- The locks that the waiter `waiter` of `name` wants, all or none; nil if nobody knows any more.
local function wanted(name, waiter, size)
  if size == 1 then
    return { name }
  end
  local locks = call("LRANGE", SET .. waiter, 0, -1)
  return #locks > 0 and locks or nil
end

-- Take a waiter out of the queues of all its locks.
local function leave(locks, waiter)
  call("HDEL", WAITS, session(waiter))
  if #locks > 1 then
    call("DEL", SET .. waiter)
  end
  for _, name in ipairs(locks) do
    call("LREM", QUEUE .. name, 1, waiter)
    call("HDEL", CLAIMS .. name, waiter)
  end
end

local function is_intent(mode)
  return string.sub(mode, 1, 7) == "intent:"
end

-- Whether the waiter stands first everywhere and every lock has room for it. It does not stand
-- where it has an intent that was not in its way, so that those who wait for rows do not keep
-- others from other rows; if that is in its way by now, it stands there from here on.
local function fits(locks, waiter, mode, claim)
  -- The intents come first, and count when all else is there.
  for place = #locks, 1, -1 do
    local name, here = locks[place], mode_at(mode, place)
    local stands = not is_intent(here) or call("HEXISTS", CLAIMS .. name, waiter) == 1
    if stands and #locks > 1 and call("LINDEX", QUEUE .. name, 0) ~= waiter then
      return false
    end
    if not room(name, here) then
      if not stands then
        local kept = clock() + WAITER_KEPT_MS
        call("RPUSH", QUEUE .. name, waiter)
        call("HSET", CLAIMS .. name, waiter, claim)
        keep_queue(name, kept)
        keep_index(name, kept)
      end
      return false
    end
  end
  return true
end

-- Take a waiter out of the queue of `name` alone, if it has an intent there for which there is
-- room: it waits for something else. Returns whether it was.
local function steps_aside(locks, waiter, mode, name)
  for place, each in ipairs(locks) do
    local here = mode_at(mode, place)
    if each == name and is_intent(here) and room(name, here) then
      call("LREM", QUEUE .. name, 1, waiter)
      call("HDEL", CLAIMS .. name, waiter)
      return true
    end
  end
  return false
end

-- Grant the locks to those who stand first in queue, as far as there is room. The message is
-- the grant: by the time a waiter reads it, it is a holder. A dead waiter, one whose channel
-- has no listener, is dropped. Returns the fencing token if the caller itself, `token`, was
-- granted: it learns of it from the reply instead.
local function settle(locks)
  local own
  local todo = {}
  for i, name in ipairs(locks) do
    todo[i] = name
  end
  while #todo > 0 do
    local name = table.remove(todo)
    while true do
      local first = call("LINDEX", QUEUE .. name, 0)
      if not first then
        if call("EXISTS", HOLDER .. name, SHARERS .. name) == 0 then
          call("ZREM", index, name)
        end
        break
      end
      local claim = call("HGET", CLAIMS .. name, first) or ""
      local _, since, mode, lease, listener, wait, size, who = string.match(claim, CLAIM)
      local all = mode and wanted(name, first, tonumber(size))
      local living = all and (first == token or wait == "0" or since + wait > clock())
      local from = living and upgraded(mode)
      if from and not shares(name, from) then
        living = false
      end
      local aside = false
      if living and not fits(all, first, mode, claim) then
        aside = steps_aside(all, first, mode, name)
        -- The dead must not keep those behind them from sharing.
        if not aside and (first == token or exclusive(name) or call("PUBSUB", "NUMSUB", channel_of(listener))[2] > 0) then
          break
        end
        living = aside
      end
      if living and not aside then
        local fence = next_fence(all, clock() + lease)
        if first == token then
          own = fence
        else
          living = tell(listener, first .. " " .. fence .. " " .. text(now)) > 0
        end
        if living then
          leave(all, first)
          hold(all, first, fence, mode, tonumber(lease), listener, who)
          if mode == "exclusive" or from then
            break
          end
        end
      end
      if not living then
        leave(all or { name }, first)
      end
      if all and #all > 1 and not aside then
        -- Its going may have left somebody first in the other queues.
        for _, other in ipairs(all) do
          if other ~= name then
            todo[#todo + 1] = other
          end
        end
      end
    end
  end
  return own
end

-- The claim and lease end of the sharer that leaves no room for `mode` and goes first.
local function blocking_sharer(name, mode)
  local from = upgraded(mode)
  local found = call("ZRANGE", SHARERS .. name, 0, -1, "WITHSCORES")
  local at = 1
  for i = 1, #found, 2 do
    local theirs = found[i] ~= from and found[i] ~= token and mode_of(name, found[i])
    if theirs and not beside(mode, theirs) then
      at = i
      break
    end
  end
  return call("HGET", CLAIMS .. name, found[at]), tonumber(found[at + 1])
end

-- Who stands in the way of `mode` (if not given: exclusive), as "now ends claim": something may
-- change by itself at `ends`, written "ends/PLACE" if it is about another lock of the set than
-- the first. The claim is empty if nobody does.
local function obstacle(locks, mode)
  local function found(place, ends, claim)
    local where = place > 1 and "/" .. place or ""
    return table.concat({ text(clock()), text(ends) .. where, claim or "" }, " ")
  end
  for place, name in ipairs(locks) do
    local here = mode_at(mode or "exclusive", place)
    local holder, claim = exclusive(name)
    if holder then
      return found(place, call("PEXPIRETIME", HOLDER .. name), claim)
    end
    if not room(name, here) then
      local theirs, ends = blocking_sharer(name, here)
      return found(place, ends, theirs)
    end
  end
  -- Nobody holds them; whoever stands first waits for another lock as well.
  for place, name in ipairs(locks) do
    local first = call("LINDEX", QUEUE .. name, 0)
    if first and first ~= token then
      -- It may have died, which shows when somebody asks again: the one behind it is to do so soon.
      local kept = call("LINDEX", QUEUE .. name, 1) == token and NEXT_ASKS_MS or WAITER_KEPT_MS
      return found(place, clock() + kept, call("HGET", CLAIMS .. name, first))
    end
  end
  return text(clock()) .. " 0 "
end
