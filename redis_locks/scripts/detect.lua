-- Look for a circle of waits through the caller, who has waited for a while. If the caller is the
-- youngest waiter in the circle, end its wait: exactly one party of a deadlock gives way.
--
-- A wait is in the way of another if it holds what that one waits for, or stands before it in the
-- queue. Each session (thread or task) that holds something, and has waited for a while, looks, and
-- so writes down here what it waits for; so the last of them to come sees the whole circle. Who
-- holds nothing is in a circle only if it stands before somebody: there its claim says what it
-- waits for. It is told to look when it is in a circle, as nobody else knows its line of code. Who
-- is told, and does not, cannot be ended: then another is. Who holds in a mode that leaves room for
-- the wait is not in its way. A wait for a permit is a dead end only if so many of those who have
-- one never go on that none will ever be to spare.
--
-- What a crowd may cost. The last to write itself down has closed the circle, so it holds what
-- somebody waits for who was there before: if nobody does, the look ends at once. All looks
-- together get a part of the server's time, from which each takes what it costs, in steps; who
-- comes again gets less of it than who looks first. And a look goes on for so many steps at a time
-- only: the caller comes back with the rest. What is found by parts is looked at again in one
-- script before anybody gives way. That is the only script that may be long: it takes some 25 us
-- for each wait that it meets.
--
-- KEYS: index lock...
-- ARGV: token
--   2 mode, as in acquire
--   3 who, for people
--   4 where, the line of code that waits, for people
--   5 tokens of the caller's process that hold but will not be renewed, and its own by hand that
--     are in its own way; they are in nobody's way
--   6 keys of the locks that the caller's session holds, as a JSON list; "" if that is not known
--   7 why it looks: "first" no look of this wait has come to its end; "again";
--     "told" another look wants it
--   8 what a look has left to do, from the reply; "" to begin; "later" to begin after a short look;
--     "confirm" to walk a circle that was met in parts
-- Reply: "token 0 pause"       no deadlock that is the caller's to end; look again after so many ms
--        "token 1 circle"      its wait is over;
--                              JSON list of {names, mode, who, where}, caller first
--        "token 2 pause rest"  nothing yet; after so many ms, look on

--include _prelude
--include _keys

-- One table for all limits: Lua allows a script 200 local names, and the parts have most of them.
local LIMITS = {
  waits_kept_ms = 60000,
  -- How long who is told to look may take.
  answer_ms = 1000,
  -- A step takes the server some 12 us. All looks together get so many in a ms,
  -- which is some 3 % of its time.
  steps_a_ms = 2,
  -- So many may have been taken in advance, for a look to begin.
  in_advance = { first = 3000, again = 200, told = math.huge },
  -- How many steps a look may take: at a time; at first, while others have taken all that there
  -- was; and to confirm what it found, a circle or a choice.
  steps = { part = 60, at_first = 12, circle = 6000, choice = 160 },
  parts = 100,
  -- Reading a place in a queue, or a sharer, is so much of a step;
  -- and where the walk also notes who stands there.
  read = 0.05,
  note = 0.1,
  -- How many places in a queue are read at a time; how many, to see who waits for a lock of the
  -- caller; how many sharers of a lock, in all; and how many of them that wait.
  places_at_once = 50,
  places = 500,
  sharers = 2000,
  stuck = { permits = 100, others = 25 },
  -- How many waits may be left for the next part.
  left = 200,
  -- In ms: between the looks of a wait, and more for each that was written down; at most;
  -- until a look that had to wait.
  pause = {
    again = 2000, again_each = 20, longest = 30000, soon = 250, soon_each = 10, next_part = 5,
  },
  -- So long those of very many sharers that count first stay the same.
  turn_ms = 60000,
}

local why, rest = ARGV[7], ARGV[8]
local held = ARGV[6] ~= "" and cjson.decode(ARGV[6]) or nil
local mine = string.match(token, "^(.*)%.") or token

local me = { token = token, names = all, asked = ARGV[2], who = ARGV[3], where = ARGV[4] }
do
  local intents, plain = string.match(me.asked, "^intent:(%d+):(.*)$")
  me.mode = plain and (tonumber(intents) < #all and plain or "intent:" .. plain) or me.asked
  local queue = LOCK .. all[#all]
  local place = call("HGET", queue, token)
  local entry = place and call("HGET", queue, place)
  me.since = entry and tonumber(string.match(string.sub(entry, #token + 2), "^0 (%d+) "))
end
if not me.since then
  return token .. " 0 " .. LIMITS.pause.again
end
call("HSET", WAITS, mine, cjson.encode(me))
call("PEXPIRE", WAITS, LIMITS.waits_kept_ms)

-- How many ms until the next look: `least`, and `each` for each wait that was written down.
local written = call("HLEN", WAITS)

local function pause(least, each)
  return math.min(math.max(least, each * written), LIMITS.pause.longest)
end

-- Nearly always nobody waits for what the caller holds.
-- That comes before the other parts are included, as in acquire.
do
  local wanted_from_me = why == "told" or rest ~= "" or not held
  for _, key in ipairs(wanted_from_me and {} or held) do
    wanted_from_me = wanted_from_me or call("HEXISTS", key, "line") == 1
  end
  if not wanted_from_me then
    return token .. " 0 " .. pause(LIMITS.pause.again, LIMITS.pause.again_each)
  end
end

--include _lock
--include _modes
--include _queue

local forsaken = {}
for each in string.gmatch(ARGV[5], "%S+") do
  forsaken[each] = true
end
local cost = 0

-- The last lock of a set is one in whose queue its waiter always stands.
local claim_in_queue
do
  local claims = {}

  function claim_in_queue(wait)
    claims[wait] = claims[wait] or waiter_claim(state_of(wait.names[#wait.names]), wait.token) or ""
    return claims[wait]
  end
end

local function listener_of(wait)
  local _, _, _, _, listener = string.match(claim_in_queue(wait), CLAIM)
  return listener
end

-- Whether nobody listens for a wait: its process has died, or lost its connection.
local function is_dead(wait)
  if wait.dead == nil then
    local listener = listener_of(wait)
    wait.dead = not (listener and call("PUBSUB", "NUMSUB", GRANTS .. listener)[2] > 0)
  end
  return wait.dead
end

local function since(wait)
  return tonumber(string.match(claim_in_queue(wait), "^0 (%d+) "))
end

-- The steps that were taken in advance, by all looks.
local taken
do
  local before, at = string.match(call("GET", LOOKS) or "0 0", "^(%S+) (%d+)$")
  taken = math.max(0, before - (clock() - at) * LIMITS.steps_a_ms)
end

-- Reply, and write down what it took.
local function answer(kind, least, each, left)
  if cost >= 1 then
    call("SET", LOOKS, math.ceil(taken + cost) .. " " .. text(now), "PX", LIMITS.waits_kept_ms)
  end
  return token .. " " .. kind .. " " .. pause(least, each) .. (left and " " .. left or "")
end

local function nothing_found()
  return answer("0", LIMITS.pause.again, LIMITS.pause.again_each)
end

-- Those of `tokens` whose sessions have written down what they wait for,
-- until there are more than `most`.
local function those_written(tokens, most)
  local found = {}
  for first = 1, #tokens, PLACES do
    local sessions = {}
    if #found > most then
      break
    end
    for i = first, math.min(first + PLACES - 1, #tokens) do
      sessions[#sessions + 1] = session(tokens[i])
    end
    for i, noted in ipairs(call("HMGET", WAITS, unpack(sessions))) do
      if noted then
        found[#found + 1] = tokens[first + i - 1]
      end
    end
  end
  return found
end

-- Whether somebody who can be part of a circle waits for what the caller holds: it stands in that
-- queue, and has written itself down, or wants a set, so that others may stand behind it elsewhere.
local function is_waited_for()
  for _, key in ipairs(held) do
    local state = state_of(string.sub(key, #LOCK + 1))
    if state.waiting > 0 then
      -- The places that others have left are read, too.
      local until_place = math.min(state.last, state.first + LIMITS.places - 1)
      local entries = state.waiting <= PLACES
          and line(state, state.first, state.waiting, until_place)
        or {}
      cost = cost + LIMITS.read * (until_place - state.first + 1)
      if #entries < 2 * state.waiting or cost > LIMITS.steps.part then
        return true -- too many to read: the walk finds out
      end
      local tokens = {}
      for i = 2, #entries, 2 do
        local each, size = string.match(entries[i], "^(%S+) %d+ %d+ %S+ %d+ %S+ %d+ (%d+) ")
        if size ~= "1" then
          return true
        end
        tokens[#tokens + 1] = each
      end
      if #those_written(tokens, 0) > 0 then
        return true
      end
    end
  end
  return false
end

-- How many steps too many were taken for this look, which then is a short one:
-- most circles are small.
local over = 0
if why ~= "told" and rest ~= "confirm" then
  if rest == "" and held and not is_waited_for() then
    return nothing_found()
  end
  over = taken - LIMITS.in_advance[why]
  if over > 0 and why == "again" then
    return nothing_found()
  end
end

-- Come again when there are steps again, with the same rest.
local function later()
  local left_to_do = rest ~= "" and rest or "later"
  local least = math.max(LIMITS.pause.soon, math.ceil(over / LIMITS.steps_a_ms))
  return answer("2", least, LIMITS.pause.soon_each, left_to_do)
end

if over > 0 and rest ~= "" then
  return later()
end

-- What the walk asks for: what is defined between `do` and `end` for it alone
-- takes no name from the script.
local wait_in_queue, queue_of, before, holders_of, place_group
local choices, settled = false, false
-- At which cost the walk ends, and at which it does once there is a choice.
local bound, bound_with_choices = 0, math.huge
-- Queues as far as they were read: of each that stands there the next one before it that tells.
-- That one waits for those before it in turn. Of those that want this lock only, the first in each
-- mode does: the others wait for nothing but what that one waits for. So a long queue is short to
-- walk.
local queues = {}
-- By lock, where reading a queue had to end, and for whom.
local unread = {}
-- Whom the walk has met.
local met = {}

do
  -- What each session waits for; false if it does not, or has not for long.
  local waits = { [mine] = me }

  local function wait_of(its_token)
    local its = session(its_token)
    if waits[its] == nil then
      cost = cost + 1
      local noted = call("HGET", WAITS, its)
      local wait = noted and cjson.decode(noted)
      -- What was noted may be over; then its claim is gone.
      local began = wait and since(wait)
      if began then
        wait.since = began
      elseif wait then
        call("HDEL", WAITS, its)
      end
      waits[its] = began and wait or false
    end
    return waits[its]
  end

  -- What those wait for who stand in a queue and have not written it down.
  local unwritten = {}

  -- What `waiter` waits for, who stands in the queue of `name` with `claim`;
  -- nil if nobody knows any more.
  function wait_in_queue(name, waiter, claim)
    local wait = wait_of(waiter)
    if wait and wait.token == waiter then
      return wait
    end
    if unwritten[waiter] == nil then
      local fence, began, asked, _, _, _, size, its_who = string.match(claim, CLAIM)
      local names = fence == "0" and wanted(name, waiter, tonumber(size))
      unwritten[waiter] = names
          and {
            token = waiter,
            names = names,
            mode = mode_at(asked, #names),
            asked = asked,
            who = its_who,
            since = tonumber(began),
          }
        or false
    end
    return unwritten[waiter] or nil
  end

  -- Those of `tokens` that wait, and whose going is waited for by whoever else there is. What the
  -- dead hold ends with its lease.
  local function waiting(tokens, from)
    local found = {}
    for _, each in ipairs(tokens) do
      local wait = each ~= from and not forsaken[each] and wait_of(each)
      if wait and (wait == me or not is_dead(wait)) then
        found[#found + 1] = { wait = wait, token = each }
      end
    end
    return found
  end

  local obstacles = {}

  -- Sharers in the order in which they count, as only the first that wait do: the caller's own
  -- token, so that of a circle through very many each finds itself; and others first after a while.
  local function in_turn(tokens)
    local ordered, begins = {}, mine .. "."
    local first = math.floor(clock() / LIMITS.turn_ms) * LIMITS.stuck.others
    for offset = 0, #tokens - 1 do
      local each = tokens[(first + offset) % #tokens + 1]
      local own = (each == mine or string.sub(each, 1, #begins) == begins) and session(each) == mine
      table.insert(ordered, own and 1 or #ordered + 1, each)
    end
    return ordered
  end

  -- How many permits have to be stuck, at least, so that none will ever be to spare;
  -- nil if none is out.
  local function least_stuck(name, wanted)
    local least
    for capacity in pairs(capacities(state_of(name))) do
      least = math.min(least or wanted, tonumber(capacity))
    end
    return least
  end

  -- Who holds a lock so that there is no room for `waiter_mode`, in groups: each is in the way for
  -- as long as `most` of it, or as few as one of its capacity lets in, never go on.
  local function holders_in_the_way(name, waiter_mode)
    local key = waiter_mode .. " " .. name
    if obstacles[key] then
      return obstacles[key]
    end
    cost = cost + 1
    local groups = {}
    local holder = exclusive(name)
    if holder then
      groups[1] = { most = 1, members = waiting({ holder }) }
    elseif not room(name, waiter_mode) then
      local alone, permits, capacity_of = {}, {}, {}
      local wanted = tonumber(string.match(waiter_mode, "^permit:(%d+)$"))
      local all_of_them = call("ZRANGE", SHARERS .. name, text(clock()), "+inf", "BYSCORE",
        "LIMIT", 0, LIMITS.sharers)
      cost = cost + LIMITS.read * #all_of_them
      local least = wanted and least_stuck(name, wanted)
      local most = least and LIMITS.stuck.permits or LIMITS.stuck.others
      local stuck = those_written(in_turn(all_of_them), most)
      -- Of permits all that wait are needed, to know whether one will be to spare. Where one will,
      -- or they are too many to read, nobody is in the way. Of others any one is in the way, so the
      -- first ones do.
      if least and (#stuck < least or #stuck > most) then
        stuck = {}
      end
      for place = 1, math.min(#stuck, most) do
        local sharer = stuck[place]
        local theirs = mode_of(name, sharer)
        if theirs and wanted and kind(theirs) == "permit" then
          permits[#permits + 1] = sharer
          capacity_of[sharer] = tonumber(string.match(theirs, "%d+$"))
        elseif theirs and not beside(waiter_mode, theirs) then
          alone[#alone + 1] = sharer
        end
      end
      groups[1] = { most = 1, members = waiting(alone, upgraded(waiter_mode)) }
      if #permits > 0 then
        choices, bound = true, math.min(bound, bound_with_choices)
        groups[2] = { most = wanted, members = waiting(permits), capacities = capacity_of }
      end
    end
    obstacles[key] = groups
    return groups
  end

  function queue_of(name, from)
    queues[name] = queues[name] or { read = from or state_of(name).first, before = {}, told = {} }
    return queues[name]
  end

  function before(name, waiter)
    local state, queue = state_of(name), queue_of(name)
    if queue.before[waiter] == nil then
      local place = place_of(state, waiter) or queue.read - 1
      while queue.read <= place and cost < bound do
        local until_place = math.min(place, queue.read + LIMITS.places_at_once - 1)
        local entries = line(state, queue.read, LIMITS.places_at_once, until_place)
        cost = cost + LIMITS.note * LIMITS.places_at_once
        for i = 2, #entries, 2 do
          local each, claim = string.match(entries[i], "^(%S+) (.*)$")
          queue.before[each] = queue.last or false
          local asked, size = string.match(claim, "^0 %d+ (%S+) %d+ %S+ %d+ (%d+) ")
          local wait = asked
            and not (size == "1" and queue.told[asked])
            and wait_in_queue(name, each, claim)
          if wait then
            queue.told[asked] = queue.told[asked] or size == "1"
            queue.last = wait
          end
        end
        queue.read = until_place + 1
      end
      if queue.read <= place then
        queue.before[waiter] = queue.last or false
        if not unread[name] or unread[name].place < place then
          unread[name] = { waiter = waiter, place = place }
        end
      end
    end
    return queue.before[waiter] or nil
  end

  -- The holders in the way of a wait, in groups as above.
  function holders_of(wait)
    if not wait.groups then
      wait.groups = {}
      for place, name in ipairs(wait.names) do
        for _, group in ipairs(holders_in_the_way(name, mode_at(wait.asked, place))) do
          wait.groups[#wait.groups + 1] = group
        end
      end
    end
    return wait.groups
  end

  -- Where the caller stands in the queues of its locks.
  local my_places = {}
  for _, name in ipairs(all) do
    my_places[name] = place_of(state_of(name), token)
  end

  -- Who stands before a wait in the queue of `name`:
  -- as a group, of one that tells of the others; nil if nobody does.
  function place_group(wait, name)
    local key = "place " .. name
    if wait[key] == nil then
      local mine_there = my_places[name]
      local other
      cost = cost + LIMITS.read
      if state_of(name).waiting <= 1 then
        other = nil -- it stands there alone, if at all
      elseif
        mine_there
        and wait ~= me
        and (place_of(state_of(name), wait.token) or mine_there) > mine_there
      then
        other = me
      else
        other = before(name, wait.token)
      end
      wait[key] = other and { most = 1, members = { { wait = other } }, queue = name } or false
      wait.groups[#wait.groups + 1] = wait[key] or nil
    end
    return wait[key] or nil
  end
end

-- Walk from `starts` to all that they wait for and that never `goes_on`, the nearest first: to
-- holders first, as places in queues take longer to read. Returns the steps, and as what the caller
-- itself was met there, if it was: each step has the step before it; and the first that was not
-- taken, if any is left. Without a choice the first circle is one, and nothing more is to be known.
local function walk(starts)
  local steps, seen, back = {}, {}, nil
  local function go(step, group)
    for _, member in ipairs(seen[group] and {} or group.members) do
      local wait = member.wait
      local next_step = { wait = wait, from = step, queue = group.queue }
      if wait == me and not back then
        back = next_step
      end
      if not met[wait] and not wait.goes_on then
        met[wait] = true
        steps[#steps + 1] = next_step
      end
    end
    seen[group] = true
  end
  for _, wait in ipairs(starts) do
    if not met[wait] then
      steps[#steps + 1], met[wait] = { wait = wait }, true
    end
  end
  local place = 1
  while steps[place] and cost < bound and not (back and not choices) do
    local step = steps[place]
    if step.at then
      local group = place_group(step.wait, step.at)
      if group then
        go(step.of, group)
      end
    else
      for _, group in ipairs(holders_of(step.wait)) do
        go(step, group)
      end
      for _, name in ipairs(settled and {} or step.wait.names) do
        steps[#steps + 1] = { wait = step.wait, at = name, of = step }
      end
    end
    place = place + 1
  end
  return steps, back, place
end

-- Whether so many of a group never go on that there is no room.
local function is_dead_end(group)
  local count, most = 0, group.most
  for _, member in ipairs(group.members) do
    if not member.wait.goes_on then
      count = count + 1
      most = math.min(most, group.capacities and group.capacities[member.token] or most)
    end
  end
  return count >= most
end

-- Find out who goes on after all: whoever has no dead end before it, until nobody new is found.
local function settle_choices(steps)
  local found
  repeat
    found = false
    for place = #steps, 1, -1 do
      local wait = steps[place].wait
      local stuck = wait.goes_on
      for _, group in ipairs(stuck and {} or wait.groups) do
        stuck = stuck or is_dead_end(group)
      end
      if not stuck then
        wait.goes_on, found = true, true
      end
    end
  until not found
end

local part
-- What an earlier part has left, and this one, too.
local untouched = { waits = {}, places = {} }

-- What is left to do after a walk that ended at `place`, as text; nil if nothing is. Queues are
-- read once, so who was seen there and not met yet is left, too.
local function left_after(steps, place)
  if not steps[place] and not next(unread) and #untouched.waits + #untouched.places == 0 then
    return nil
  end
  local left = { part = part + 1, waits = {}, places = {}, read = {} }
  local function add(list, name, waiter)
    if #list < LIMITS.left then
      list[#list + 1] = { name, waiter }
    end
  end
  for kind, list in pairs(untouched) do
    for _, each in ipairs(list) do
      add(left[kind], each[1], each[2])
    end
  end
  for i = place, #steps do
    local step = steps[i]
    local wait = step.wait
    add(step.at and left.places or left.waits, step.at or wait.names[#wait.names], wait.token)
  end
  for name, queue in pairs(queues) do
    left.read[name] = queue.read
    local seen = queue.last
    while seen do
      if not met[seen] then
        add(left.waits, seen.names[#seen.names], seen.token)
      end
      seen = queue.before[seen.token]
    end
  end
  for name, each in pairs(unread) do
    add(left.places, name, each.waiter)
  end
  return cjson.encode(left)
end

-- Where to look on.
local function starts_of(todo)
  local starts = {}
  for name, read in pairs(todo.read) do
    queue_of(name, read)
  end
  local function the_wait(name, waiter)
    cost = cost + 1
    local claim = waiter_claim(state_of(name), waiter)
    return claim and wait_in_queue(name, waiter, claim) or nil
  end
  for _, kind in ipairs({ "places", "waits" }) do
    for _, each in ipairs(todo[kind]) do
      local wait = cost < bound / 2 and the_wait(each[1], each[2])
      if cost >= bound / 2 then
        table.insert(untouched[kind], each)
      elseif wait and kind == "places" then
        met[wait] = true
        starts[#starts + 1] = before(each[1], each[2])
      else
        starts[#starts + 1] = wait
      end
    end
  end
  return starts
end

local todo = rest ~= "" and rest ~= "later" and rest ~= "confirm" and cjson.decode(rest)
part = todo and todo.part or 1
local steps, back, place
if rest == "confirm" then
  bound, bound_with_choices = LIMITS.steps.circle, LIMITS.steps.choice
  steps, back, place = walk({ me })
  if not back then
    return nothing_found()
  end
  for i = choices and place or #steps + 1, #steps do
    -- It was not looked at any more. So it counts as one that goes on,
    -- and nobody gives way because of it.
    steps[i].wait.goes_on = steps[i].wait.goes_on or not steps[i].wait.groups
  end
else
  bound = cost + (over > 0 and LIMITS.steps.at_first or LIMITS.steps.part)
  steps, back, place = walk(todo and starts_of(todo) or { me })
  if not back and over > 0 then
    -- Each wait has one short look for nothing,
    -- or the looks of a crowd would use up what they wait for.
    cost = 0
    return later()
  elseif not back then
    local left = part < LIMITS.parts and left_after(steps, place)
    return left and answer("2", LIMITS.pause.next_part, 0, left) or nothing_found()
  end
  if todo or (choices and left_after(steps, place)) then
    -- It was met by parts, or there is more to choose from.
    -- Once more, the whole of it, in a script of its own.
    return answer("2", LIMITS.pause.next_part, 0, "confirm")
  end
end
if choices then
  settle_choices(steps)
  -- A permit group that is no dead end is in nobody's way, though some of it never go on.
  for _, step in ipairs(steps) do
    local dead = {}
    for _, group in ipairs(step.wait.groups or {}) do
      dead[#dead + 1] = is_dead_end(group) and group or nil
    end
    step.wait.groups = dead
  end
  back, settled = nil, true
  if not me.goes_on then
    bound, met = math.huge, {}
    steps, back = walk({ me })
  end
end
if not back then
  return nothing_found()
end

local circle = {}
local step = back
while step.from do
  -- Who stands in a queue only between two others of the circle is not needed to close it.
  local queue = step.queue
  step = step.from
  while queue and step.queue == queue do
    step = step.from
  end
  table.insert(circle, 1, step.wait)
end

-- The place of who is dead goes, as when it is to be granted something.
local my_listener = listener_of(me)
for _, wait in ipairs(circle) do
  if wait ~= me and is_dead(wait) then
    take_out(wait.names, wait.token)
    local fence = settle(wait.names)
    if fence then
      -- The caller had waited for that place only. It reads no grant in this reply.
      tell(my_listener, token .. " " .. fence .. " " .. text(now))
    end
    return nothing_found()
  end
end

-- Whether a wait has not looked though it was told to for long:
-- its process stands still, or cannot be reached.
local function is_mute(wait)
  return wait.told and clock() - wait.told > LIMITS.answer_ms
end

local to_look, mute, youngest = {}, {}, me
for _, wait in ipairs(circle) do
  if is_mute(wait) then
    mute[#mute + 1] = wait
  else
    local later = wait.since > youngest.since
      or (wait.since == youngest.since and wait.token > youngest.token)
    youngest = later and wait or youngest
    to_look[#to_look + 1] = not wait.where and wait or nil
  end
end
if youngest ~= me and youngest.where then
  -- It looked before the circle was complete.
  to_look[#to_look + 1] = youngest
end

-- Tell a wait to look.
local function tell_to_look(wait)
  -- No fencing token, no grant.
  tell(listener_of(wait), wait.token .. " 0 " .. text(clock()))
  if not wait.told and clock() - wait.since > NOTED_AFTER_MS then
    -- Until it writes this anew, which it does when it looks.
    local note = { told = clock(), since = wait.since }
    for _, field in ipairs({ "token", "names", "mode", "asked", "who", "where" }) do
      note[field] = wait[field]
    end
    call("HSET", WAITS, session(wait.token), cjson.encode(note))
  end
end

for _, wait in ipairs(mute) do
  tell_to_look(wait)
end
for _, wait in ipairs(to_look) do
  tell_to_look(wait)
end
if #to_look > 0 then
  return nothing_found()
end
take_out(all, token)
settle(all)
local told = {}
for place, wait in ipairs(circle) do
  told[place] = {
    names = wait.names,
    mode = wait.mode,
    who = wait.who,
    where = wait.where or "an unknown line",
  }
end
return token .. " 1 " .. cjson.encode(told)
