-- The queue of a lock: who stands first, how to take a waiter out, and whose turn it is.

--include _messages

-- How soon the next waiter is to ask again, if the first may have died.
local NEXT_ASKS_MS = 1000
-- How many places are looked at at once where some are empty.
local PLACES = 100
-- How many of the last waiters are tried, where the first one is dead.
local MOST_LAST = 20
-- Among how many sharers to look for the one that is in the way; else the first is shown.
local MOST_LOOKED_AT = 20

-- How much of the queues a script works off, so that it never keeps the server for long: so many
-- waiters are looked at, sets for each of their locks, or PLACES_FOR_ONE times as many places that
-- others gave up; and so many locks are granted, or one set. The rest is done at the next
-- question, and one waiter of each queue is asked to put that: see `leave_rest`.
local PLACES_FOR_ONE, NAMES_FOR_ONE = 5, 20
local work, grants = 200 + 4 * #all, 25
-- Whether a waiter was taken out, or an empty place has been passed over. If neither was, it is
-- no use to ask again at once.
local moved = false
-- Whether too many places were empty somewhere to find the first waiter.
local cut_short = false
-- Listeners whose connection is closed, as a grant has shown:
-- all other waiters on it are gone, too.
local closed = {}
-- Who was told to ask again, and whether anything is left to do.
local asked, rest_left = {}, false

-- The thread or task that a token belongs to.
local function session(of)
  return string.match(of, "^(.*)%.") or of
end

-- The places that are taken, from `place` to `until_place` (if not given: the last) as far as
-- `most` go: {place, "token claim", ...}.
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

-- The first waiter and its claim; nil if nobody waits, or if it is too far to the first,
-- and no work is left.
local function first_in_line(state)
  if state.waiting == 0 then
    return nil
  end
  local entry = call("HGET", state.key, text(state.first))
  if not entry then
    -- Whoever stood there has left.
    local most = state.first + math.floor(PLACES_FOR_ONE * math.max(work, 0) + 0.5)
    local next_ones = line(state, state.first, 1, math.min(state.last, most))
    local place = next_ones[1] or math.min(state.last, most) + 1
    work = work - (place - state.first) / PLACES_FOR_ONE
    moved, cut_short = true, cut_short or (not next_ones[1] and place <= state.last)
    state.first, entry = place, next_ones[2]
    state.waiting = place <= state.last and state.waiting or 0
  end
  if entry then
    return string.match(entry, "^(%S+) (.*)$")
  end
end

-- The place of a waiter, or nil if it does not stand in the queue.
local function place_of(state, waiter)
  local place = state.waiting > 0 and call("HGET", state.key, waiter)
  return place and string.find(place, "^%-?%d+$") and tonumber(place) or nil
end

-- The claim of a waiter, or nil if it does not stand in the queue.
local function waiter_claim(state, waiter)
  local place = place_of(state, waiter)
  local entry = place and call("HGET", state.key, text(place))
  return entry and string.sub(entry, #waiter + 2)
end

-- Take whoever stands at `place` out of the queue; `save` or `save_cuts` writes it.
local function remove(state, place, waiter)
  moved = true
  cut(state, text(place))
  cut(state, waiter)
  state.waiting = state.waiting - 1
  if state.waiting == 0 then
    state.first, state.last = 1, 0
  elseif place == state.first then
    state.first = place + 1
  elseif place == state.last then
    state.last = place - 1
  end
end

-- Take a waiter out of the queue of one lock, if it stands there.
local function take_out_of(name, waiter)
  local state = state_of(name)
  local place = place_of(state, waiter)
  if place then
    remove(state, place, waiter)
    save(state)
  end
end

-- Take a waiter out of the queues of all its locks.
local function take_out(locks, waiter)
  call("HDEL", WAITS, session(waiter))
  if #locks > 1 then
    call("DEL", SET .. waiter)
  end
  for _, name in ipairs(locks) do
    take_out_of(name, waiter)
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
    work = work - (#locks > 1 and 1 or 0)
    local stands = #locks == 1 or not is_intent(here) or place_of(state, waiter) ~= nil
    if stands and #locks > 1 and first_in_line(state) ~= waiter then
      save(state)
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

-- Take a waiter out of the queue of `name` alone, if it has an intent there for which there is
-- room: it waits for something else. Returns whether it was.
local function steps_aside(locks, waiter, mode, name)
  for place, each in ipairs(locks) do
    local here = mode_at(mode, place)
    if each == name and is_intent(here) and room(name, here) then
      take_out_of(name, waiter)
      return true
    end
  end
  return false
end

-- Grant the locks that the first waiter for `name` wants, for which there is room. Returns whether
-- it lives: the message is the grant, and by the time a waiter reads it, it is a holder; one whose
-- channel has no listener is dropped. Its fencing tokens are out of use then: it may listen
-- elsewhere, as at a replica of a cluster. If it is the caller, the second value is its fencing
-- token.
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
  grants = grants - #locks
  if #locks > 1 then
    call("DEL", SET .. first)
  end
  if clock() - since > NOTED_AFTER_MS then
    call("HDEL", WAITS, session(first))
  end
  local fence = next_fence(locks, clock() + lease)
  local own = first == token
  local living = own or tell(listener, first .. " " .. fence .. " " .. text(now)) > 0
  closed[listener] = not living
  if living then
    hold(locks, first, fence, mode, tonumber(lease), listener, who)
  else
    for _, each in ipairs(locks) do
      local state = state_of(each)
      state.fence, state.changed = tonumber(fence), true
    end
  end
  for _, each in ipairs(locks) do
    save(state_of(each))
  end
  return living, own and fence or nil
end

-- Whether the first waiter, to whom nothing can be granted yet, keeps those behind it waiting: the
-- dead must not keep them from sharing.
local function is_there(first, listener)
  return first == token or call("PUBSUB", "NUMSUB", GRANTS .. listener)[2] > 0
end

-- Ask a waiter to ask again at once, which works off the rest of the queue: the first one, or one
-- of the last, who are likelier to live. The caller, if it waits, learns from the reply that it is
-- to ask.
local function leave_rest(state)
  rest_left = true
  local places = { state.first }
  for place = state.last, math.max(state.first + 1, state.last - MOST_LAST), -1 do
    places[#places + 1] = place
  end
  for _, place in ipairs(places) do
    local entry = call("HGET", state.key, text(place))
    local waiter, listener = string.match(entry or "", "^(%S+) %d+ %d+ %S+ %d+ (%S+) ")
    -- No fencing token is below 0.
    if
      waiter
      and (
        waiter == token
        or asked[waiter]
        or tell(listener, waiter .. " -2 " .. text(clock())) > 0
      )
    then
      asked[waiter] = true
      return
    end
  end
end

-- Grant the locks to those who stand first in the queue, as far as there is room, and as there is
-- `work`. Returns the fencing token if the caller itself, `token`, was granted: it learns of it
-- from the reply. `asking`: whether the caller has made no room, but asks.
local function settle(locks, asking)
  local own
  -- `stuck` are living waiters of several locks to whom nothing can be granted
  -- before anything changes.
  local todo, due, stuck = {}, {}, {}
  local function add(name)
    if not due[name] then
      todo[#todo + 1], due[name] = name, true
    end
  end
  for _, name in ipairs(locks) do
    add(name)
  end
  while #todo > 0 do
    local name = table.remove(todo)
    local state = state_of(name)
    due[name] = false
    while true do
      local first, claim = first_in_line(state)
      if state.waiting == 0 then
        save(state)
        if not exclusive(name) and sharers(name) == 0 then
          call("ZREM", index, name)
        end
        break
      end
      if exclusive(name) or (first and stuck[first]) then
        save(state)
        break
      end
      if work <= 0 or grants <= 0 then
        save(state)
        if moved or not asking then
          leave_rest(state)
        end
        break
      end
      local _, since, mode, lease, listener, wait, size = string.match(claim, CLAIM)
      local its = mode and wanted(name, first, tonumber(size))
      local alone = not its or #its == 1
      work = work - 1 - (alone and 0 or #its / NAMES_FOR_ONE)
      local living = its
        and (
          first == token
          or (not closed[listener] and (wait == "0" or since + wait > clock()))
        )
      local from = living and upgraded(mode)
      if from and not shares(name, from) then
        living = false
      end
      local gone, aside = not living, false
      if living and not fits(its, first, mode, claim) then
        aside = steps_aside(its, first, mode, name)
        gone = not aside and not is_there(first, listener)
        if not aside and not gone then
          stuck[first] = true
          save(state)
          if state.ended > 0 or cut_short then
            -- Perhaps there is room once the ended are forgotten, or all places were looked at.
            leave_rest(state)
          end
          break
        end
      elseif living then
        local granted, fence = grant(its, name, first, claim)
        own, stuck = fence or own, {}
        if granted and (mode == "exclusive" or from) then
          break
        end
      end
      stuck = {}
      if gone and alone then
        call("HDEL", WAITS, session(first))
        remove(state, state.first, first)
      elseif gone then
        take_out(its, first)
        work = work - #its
      end
      if not alone and not aside then
        -- Its going may have left somebody first in the other queues.
        for _, other in ipairs(its) do
          if other ~= name then
            add(other)
          end
        end
      end
    end
  end
  return own
end

-- The claim and lease end of the sharer that leaves no room for `mode` and goes first.
local function blocking_sharer(name, mode)
  local from, tokens = upgraded(mode), {}
  local found = call("ZRANGE", SHARERS .. name, text(clock()), "+inf", "BYSCORE",
    "LIMIT", 0, MOST_LOOKED_AT, "WITHSCORES")
  for i = 1, #found, 2 do
    tokens[#tokens + 1] = found[i]
  end
  local claims = call("HMGET", LOCK .. name, unpack(tokens))
  for place, sharer in ipairs(tokens) do
    local theirs = sharer ~= from
      and sharer ~= token
      and string.match(claims[place] or "", "^%d+ %d+ (%S+) ")
    -- Of permits all are in the way.
    if theirs and (kind(theirs) == "permit" or not beside(mode, theirs)) then
      return claims[place], tonumber(found[2 * place])
    end
  end
  return claims[1], tonumber(found[2])
end

-- Who stands in the way of `mode` (if not given: exclusive), as "now ends claim": something may
-- change by itself at `ends`, written "ends/PLACE" if it is about another lock of the set than
-- the first. The claim is empty if nobody does.
local function obstacle(locks, mode)
  local function found(place, ends, claim)
    ends = rest_left and clock() or ends
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
      -- Perhaps there is room once all the ended are forgotten.
      rest_left = rest_left or state_of(name).ended > 0
      return found(place, until_then, theirs)
    end
  end
  -- Nobody holds them; whoever stands first waits for another lock as well.
  for place, name in ipairs(locks) do
    local state = state_of(name)
    local first, claim = first_in_line(state)
    if first and first ~= token then
      -- It may have died, which shows when somebody asks again: the one behind it is to do so soon.
      local second = line(state, state.first + 1, 1, math.min(state.last, state.first + PLACES))[2]
      local is_next = second and string.sub(second, 1, #token + 1) == token .. " "
      local soon = is_next and NEXT_ASKS_MS or WAITER_KEPT_MS
      return found(place, clock() + soon, claim)
    end
  end
  return text(clock()) .. " 0 "
end
