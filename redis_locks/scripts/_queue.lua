-- The line of waiters of a lock: who stands first, leaving it, and granting to those whose turn it is.

-- How soon the next in line is to ask again, if the first may have died.
local NEXT_ASKS_MS = 1000
-- How many places are looked at at once where some are empty.
local PLACES = 100

-- The thread or task that a token belongs to.
local function session(of)
  return string.match(of, "^(.*)%.") or of
end

-- The places that are taken, from `place` to `until_place` (if not given: the last) as far as `most` go:
-- {place, "token claim", ...}.
local function line(state, place, most, until_place)
  local found, last = {}, until_place or state.last
  while #found < 2 * most and place <= last do
    local places = {}
    for each = place, math.min(place + PLACES - 1, last) do
      places[#places + 1] = text(each)
    end
    local entries = call("HMGET", state.key, unpack(places))
    for offset = 1, #places do
      if entries[offset] and #found < 2 * most then
        found[#found + 1], found[#found + 2] = place + offset - 1, entries[offset]
      end
    end
    place = place + #places
  end
  return found
end

-- Who stands first in line and its claim; nil if nobody waits.
local function first_in_line(state)
  if state.waiting == 0 then
    return nil
  end
  local entry = call("HGET", state.key, text(state.first))
  if not entry then
    -- Whoever stood there has left.
    local next_ones = line(state, state.first, 1)
    state.first, entry = next_ones[1] or state.last + 1, next_ones[2]
    state.waiting = entry and state.waiting or 0
    state.changed = true
  end
  if entry then
    return string.match(entry, "^(%S+) (.*)$")
  end
end

-- The place of a waiter, or nil if it does not stand in line.
local function place_of(state, waiter)
  local place = state.waiting > 0 and call("HGET", state.key, waiter)
  return place and string.find(place, "^%-?%d+$") and tonumber(place) or nil
end

-- The claim of a waiter, or nil if it does not stand in line.
local function waiter_claim(state, waiter)
  local place = place_of(state, waiter)
  local entry = place and call("HGET", state.key, text(place))
  return entry and string.sub(entry, #waiter + 2)
end

-- Take whoever stands at `place` out of the line; `save` or `save_cuts` writes it.
local function remove(state, place, waiter)
  cut(state, text(place))
  cut(state, waiter)
  state.waiting = state.waiting - 1
  state.changed = true
  if state.waiting == 0 then
    state.first, state.last = 1, 0
  elseif place == state.first then
    state.first = place + 1
  elseif place == state.last then
    state.last = place - 1
  end
end

-- Take a waiter out of the line of one lock, if it stands there.
local function leave_line(name, waiter)
  local state = state_of(name)
  local place = place_of(state, waiter)
  if place then
    remove(state, place, waiter)
    save(state)
  end
end

-- Take a waiter out of the lines of all its locks.
local function leave(locks, waiter)
  call("HDEL", WAITS, session(waiter))
  if #locks > 1 then
    call("DEL", SET .. waiter)
  end
  for _, name in ipairs(locks) do
    leave_line(name, waiter)
  end
end

-- The locks that the waiter `waiter` of `name` wants, all or none; nil if nobody knows any more.
local function wanted(name, waiter, size)
  if size == 1 then
    return { name }
  end
  local locks = call("LRANGE", SET .. waiter, 0, -1)
  return #locks > 0 and locks or nil
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
    local state = state_of(name)
    local stands = #locks == 1 or not is_intent(here) or place_of(state, waiter) ~= nil
    if stands and #locks > 1 and first_in_line(state) ~= waiter then
      return false
    end
    if not room(name, here) then
      if not stands then
        local kept = clock() + WAITER_KEPT_MS
        stand(state, waiter, claim)
        keep(state, kept)
        save(state)
        list({ name }, kept)
      end
      return false
    end
  end
  return true
end

-- Take a waiter out of the line of `name` alone, if it has an intent there for which there is
-- room: it waits for something else. Returns whether it was.
local function steps_aside(locks, waiter, mode, name)
  for place, each in ipairs(locks) do
    local here = mode_at(mode, place)
    if each == name and is_intent(here) and room(name, here) then
      leave_line(name, waiter)
      return true
    end
  end
  return false
end

-- Grant the locks that the first in line of `name` wants, for which there is room. Returns whether
-- it lives: the message is the grant, and by the time a waiter reads it, it is a holder; one whose
-- channel has no listener is dropped. If it is the caller, the second value is its fencing token.
local function grant(locks, name, first, claim)
  local _, since, mode, lease, listener, _, _, who = string.match(claim, CLAIM)
  for _, each in ipairs(locks) do
    local state = state_of(each)
    local place = each == name and state.first or place_of(state, first)
    if place then
      remove(state, place, first)
    end
    save_cuts(state)
  end
  if #locks > 1 then
    call("DEL", SET .. first)
  end
  if clock() - since > NOTED_AFTER_MS then
    call("HDEL", WAITS, session(first))
  end
  local fence = next_fence(locks, clock() + lease)
  local own = first == token
  local living = own or tell(listener, first .. " " .. fence .. " " .. text(now)) > 0
  if living then
    hold(locks, first, fence, mode, tonumber(lease), listener, who)
  end
  for _, each in ipairs(locks) do
    save(state_of(each))
  end
  return living, own and fence or nil
end

-- Whether the first in line, to whom nothing can be granted yet, keeps those behind it waiting: the dead
-- must not keep them from sharing.
local function is_there(name, first, listener)
  return first == token or exclusive(name) or call("PUBSUB", "NUMSUB", channel_of(listener))[2] > 0
end

-- Grant the locks to those who stand first in line, as far as there is room. Returns the fencing
-- token if the caller itself, `token`, was granted: it learns of it from the reply.
local function settle(locks)
  local own
  local todo = {}
  for place, name in ipairs(locks) do
    todo[place] = name
  end
  while #todo > 0 do
    local name = table.remove(todo)
    local state = state_of(name)
    while true do
      local first, claim = first_in_line(state)
      if not first then
        save(state)
        if not exclusive(name) and sharers(name) == 0 then
          call("ZREM", index, name)
        end
        break
      end
      local _, since, mode, lease, listener, wait, size = string.match(claim, CLAIM)
      local its = mode and wanted(name, first, tonumber(size))
      local living = its and (first == token or wait == "0" or since + wait > clock())
      local from = living and upgraded(mode)
      if from and not shares(name, from) then
        living = false
      end
      local aside, granted, fence = false, false, nil
      if living and not fits(its, first, mode, claim) then
        aside = steps_aside(its, first, mode, name)
        if not aside and is_there(name, first, listener) then
          save(state)
          break
        end
      elseif living then
        granted, fence = grant(its, name, first, claim)
        own = fence or own
        if granted and (mode == "exclusive" or from) then
          break
        end
      end
      if not granted and not aside then
        leave(its or { name }, first)
      end
      if its and #its > 1 and not aside then
        -- Its going may have left somebody first in the other lines.
        for _, other in ipairs(its) do
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
  local found = call("ZRANGE", SHARERS .. name, 0, PLACES - 1, "WITHSCORES")
  local at = 1
  for i = 1, #found, 2 do
    local theirs = found[i] ~= from and found[i] ~= token and mode_of(name, found[i])
    if theirs and not beside(mode, theirs) then
      at = i
      break
    end
  end
  return sharer_claim(name, found[at]), tonumber(found[at + 1])
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
    local holder, claim, ends = exclusive(name)
    if holder then
      return found(place, ends, claim)
    end
    if not room(name, here) then
      local theirs, until_then = blocking_sharer(name, here)
      return found(place, until_then, theirs)
    end
  end
  -- Nobody holds them; whoever stands first waits for another lock as well.
  for place, name in ipairs(locks) do
    local state = state_of(name)
    local first, claim = first_in_line(state)
    if first and first ~= token then
      -- It may have died, which shows when somebody asks again: the one behind it is to do so soon.
      local second = line(state, state.first + 1, 1)[2]
      local is_next = second and string.sub(second, 1, #token + 1) == token .. " "
      return found(place, clock() + (is_next and NEXT_ASKS_MS or WAITER_KEPT_MS), claim)
    end
  end
  return text(clock()) .. " 0 "
end
