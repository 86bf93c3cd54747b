-- Look for a circle of waits through the caller, who has waited for a while. If the caller is the
-- youngest waiter in the circle, end its wait: exactly one party of a deadlock gives way.
--
-- A wait is in the way of another if it holds what that one waits for, or stands before it in the
-- queue. Each session (thread or task) that holds something, and has waited for a while, looks, and so
-- writes down here what it waits for; so the last of them to come sees the whole circle. Who holds nothing is in a circle
-- only if it stands before somebody: there its claim says what it waits for. It is told to look when it is in a
-- circle, as nobody else knows its line of code. Who is told, and does not, cannot be ended: then another is.
-- Who holds in a mode that leaves room for the wait is not in its way. A wait for a permit is a dead
-- end only if so many of those who have one never go on that none will ever be to spare.
--
-- KEYS: index lock...
-- ARGV: token
--   2 mode, as in acquire
--   3 who, for people
--   4 where, the line of code that waits, for people
--   5 tokens of the caller's process that hold but will not be renewed; they are in nobody's way
-- Reply: "token 0"          no deadlock that is the caller's to end
--        "token 1 circle"   its wait is over; JSON list of {names, mode, who, where}, caller first

--include _prelude
--include _lock
--include _modes
--include _queue

local WAITS_KEPT_MS = 10000
-- How long who is told to look may take.
local ANSWER_MS = 1000
local mode, who, where = ARGV[2], ARGV[3], ARGV[4]
local forsaken = {}
for each in string.gmatch(ARGV[5], "%S+") do
  forsaken[each] = true
end
local mine = session(token)

-- The last lock of a set is one in whose queue its waiter always stands.
local function claim_in_queue(wait)
  return waiter_claim(state_of(wait.names[#wait.names]), wait.token) or ""
end

local function listener_of(wait)
  local _, _, _, _, listener = string.match(claim_in_queue(wait), CLAIM)
  return listener
end

-- Whether nobody listens for a wait: its process has died, or lost its connection.
local function is_dead(wait)
  if wait.dead == nil then
    local listener = listener_of(wait)
    wait.dead = not (listener and call("PUBSUB", "NUMSUB", channel_of(listener))[2] > 0)
  end
  return wait.dead
end

local function since(wait)
  return tonumber(string.match(claim_in_queue(wait), "^0 (%d+) "))
end

local plain = mode_at(mode, #all)
local me = { token = token, names = all, mode = plain, asked = mode, who = who, where = where }
me.since = since(me)
if not me.since then
  return token .. " 0"
end
call("HSET", WAITS, mine, cjson.encode(me))
call("PEXPIRE", WAITS, WAITS_KEPT_MS)

-- What each session waits for; false if it does not, or has not for long.
local waits = { [mine] = me }

local function wait_of(its_token)
  local its = session(its_token)
  if waits[its] == nil then
    local noted = call("HGET", WAITS, its)
    local wait = noted and cjson.decode(noted)
    -- What was noted may be over; then its claim is gone.
    local began = wait and since(wait)
    if began then
      wait.since = began
    end
    waits[its] = began and wait or false
  end
  return waits[its]
end

-- What those wait for who stand in a queue and have not written it down.
local unwritten = {}

-- What `waiter` waits for, who stands in the queue of `name` with `claim`; nil if nobody knows any more.
local function wait_in_queue(name, waiter, claim)
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

-- Those of `tokens` that wait, and whose going is waited for by whoever else there is. What the dead hold ends with
-- its lease.
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

local choices = false
local obstacles = {}

-- Who holds a lock so that there is no room for `waiter_mode`, in groups: each is in the way for
-- as long as `most` of it, or as few as one of its capacity lets in, never go on.
local function holders_in_the_way(name, waiter_mode)
  local key = waiter_mode .. " " .. name
  if obstacles[key] then
    return obstacles[key]
  end
  local groups = {}
  local holder = exclusive(name)
  if holder then
    groups[1] = { most = 1, members = waiting({ holder }) }
  elseif not room(name, waiter_mode) then
    local alone, permits, capacities = {}, {}, {}
    local wanted = tonumber(string.match(waiter_mode, "^permit:(%d+)$"))
    for _, sharer in ipairs(call("ZRANGE", SHARERS .. name, 0, -1)) do
      local theirs = mode_of(name, sharer)
      if theirs and wanted and kind(theirs) == "permit" then
        permits[#permits + 1] = sharer
        capacities[sharer] = tonumber(string.match(theirs, "%d+$"))
      elseif theirs and not beside(waiter_mode, theirs) then
        alone[#alone + 1] = sharer
      end
    end
    groups[1] = { most = 1, members = waiting(alone, upgraded(waiter_mode)) }
    if #permits > 0 then
      choices = true
      groups[2] = { most = wanted, members = waiting(permits), capacities = capacities }
    end
  end
  obstacles[key] = groups
  return groups
end

-- Queues as far as they were read: of each that stands there the next one before it that tells. That
-- one waits for those before it in turn. Of those that want this lock only, the first in each mode
-- does: the others wait for nothing but what that one waits for. So a long queue is short to walk.
local queues = {}

local function before(name, waiter)
  local state = state_of(name)
  local queue = queues[name] or { read = state.first, before = {}, told = {} }
  queues[name] = queue
  if queue.before[waiter] == nil then
    local place = place_of(state, waiter) or queue.read - 1
    local entries = line(state, queue.read, place - queue.read + 1, place)
    for i = 2, #entries, 2 do
      local each, claim = string.match(entries[i], "^(%S+) (.*)$")
      queue.before[each] = queue.last or false
      local asked, size = string.match(claim, "^0 %d+ (%S+) %d+ %S+ %d+ (%d+) ")
      local wait = asked and not (size == "1" and queue.told[asked]) and wait_in_queue(name, each, claim)
      if wait then
        queue.told[asked] = queue.told[asked] or size == "1"
        queue.last = wait
      end
    end
    queue.read = math.max(queue.read, place + 1)
  end
  return queue.before[waiter] or nil
end

-- All that is in the way of a wait, in groups as above.
local function in_the_way(wait)
  if not wait.groups then
    wait.groups = {}
    for place, name in ipairs(wait.names) do
      for _, group in ipairs(holders_in_the_way(name, mode_at(wait.asked, place))) do
        wait.groups[#wait.groups + 1] = group
      end
      local other = before(name, wait.token)
      if other then
        wait.groups[#wait.groups + 1] = { most = 1, members = { { wait = other } }, queue = name }
      end
    end
  end
  return wait.groups
end

-- Walk from the caller to all that it waits for and that never `goes_on`, the nearest first. Returns
-- them, and as what the caller itself was met there, if it was: each step has the step before it.
local function walk()
  local steps, met, back = { { wait = me } }, { [me] = true }, nil
  local seen = {}
  local place = 1
  while steps[place] do
    local step = steps[place]
    for _, group in ipairs(in_the_way(step.wait)) do
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
    place = place + 1
  end
  return steps, back
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

local steps, back = walk()
if back and choices then
  settle_choices(steps)
  -- A permit group that is no dead end is in nobody's way, though some of it never go on.
  for _, step in ipairs(steps) do
    local dead = {}
    for _, group in ipairs(step.wait.groups) do
      dead[#dead + 1] = is_dead_end(group) and group or nil
    end
    step.wait.groups = dead
  end
  back = nil
  if not me.goes_on then
    steps, back = walk()
  end
end
if not back then
  return token .. " 0"
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
    leave(wait.names, wait.token)
    local fence = settle(wait.names)
    if fence then
      -- The caller had waited for that place only. It reads no grant in this reply.
      tell(my_listener, token .. " " .. fence .. " " .. text(now))
    end
    return token .. " 0"
  end
end

-- Whether a wait has not looked though it was told to for long: its process stands still, or cannot be reached.
local function is_mute(wait)
  return wait.told and clock() - wait.told > ANSWER_MS
end

local to_look, mute, youngest = {}, {}, me
for _, wait in ipairs(circle) do
  if is_mute(wait) then
    mute[#mute + 1] = wait
  else
    local later = wait.since > youngest.since or (wait.since == youngest.since and wait.token > youngest.token)
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
  if not wait.told then
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
  return token .. " 0"
end
leave(all, token)
settle(all)
local told = {}
for place, wait in ipairs(circle) do
  told[place] = { names = wait.names, mode = wait.mode, who = wait.who, where = wait.where or "an unknown line" }
end
return token .. " 1 " .. cjson.encode(told)
