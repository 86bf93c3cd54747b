-- Look for a circle of waits through the caller, who has waited for a while. If the caller is the
-- youngest waiter in the circle, end its wait: exactly one party of a deadlock gives way.
--
-- A wait is in the way of another if it holds what that one waits for, or stands before it in the
-- queue. Each session (thread or task) that has waited for a while writes down here what it
-- waits for; in a deadlock that is everybody, so the last to come sees the whole circle.
-- Who holds in a mode that leaves room for the wait is not in its way. Permits are left out: any
-- holder that leaves frees one, so waiting for one is no dead end.
--
-- KEYS: index holder...
-- ARGV: token
--   2 mode, as in acquire
--   3 who, for people
--   4 where, the line of code that waits, for people
--   5 tokens of the caller's process that hold but will not be renewed; they are in nobody's way
-- Reply: "token 0"          no deadlock that is the caller's to end
--        "token 1 circle"   its wait is over; JSON list of {names, mode, who, where}, caller first

local WAITS_KEPT_MS = 10000
local mode, who, where = ARGV[2], ARGV[3], ARGV[4]
local forsaken = {}
for each in string.gmatch(ARGV[5], "%S+") do
  forsaken[each] = true
end
local mine = session(token)

-- The last lock of a set is one in whose queue its waiter always stands.
local function claim_in_queue(wait)
  return call("HGET", CLAIMS .. wait.names[#wait.names], wait.token) or ""
end

local function since(wait)
  return tonumber(string.match(claim_in_queue(wait), "^0 (%d+) "))
end

local function in_the_way(waiter, waiter_mode, name)
  local found = {}
  local holder = exclusive(name)
  if holder then
    found[1] = holder
  elseif not room(name, waiter_mode) then
    for _, sharer in ipairs(call("ZRANGE", SHARERS .. name, 0, -1)) do
      local theirs = mode_of(name, sharer)
      if theirs and kind(theirs) ~= "permit" and not beside(waiter_mode, theirs) then
        found[#found + 1] = sharer
      end
    end
  end
  local place = call("LPOS", QUEUE .. name, waiter) or 0
  if place > 0 then
    for _, before in ipairs(call("LRANGE", QUEUE .. name, 0, place - 1)) do
      found[#found + 1] = before
    end
  end
  return found
end

local plain = mode_at(mode, #all)
local me = { token = token, names = all, mode = plain, asked = mode, who = who, where = where }
if not since(me) then
  return token .. " 0"
end
call("HSET", WAITS, mine, cjson.encode(me))
call("PEXPIRE", WAITS, WAITS_KEPT_MS)

local circle, seen = { me }, { [mine] = true }

local function closes(wait)
  local from = upgraded(wait.mode)
  for place, name in ipairs(wait.names) do
    for _, other in ipairs(in_the_way(wait.token, mode_at(wait.asked or wait.mode, place), name)) do
      local theirs = session(other)
      local counts = other ~= from and other ~= token and not forsaken[other]
      if counts and theirs == mine then
        return true
      end
      local next_wait = counts and not seen[theirs] and call("HGET", WAITS, theirs)
      seen[theirs] = seen[theirs] or counts
      if next_wait then
        next_wait = cjson.decode(next_wait)
        if since(next_wait) then
          circle[#circle + 1] = next_wait
          if closes(next_wait) then
            return true
          end
          circle[#circle] = nil
        end
      end
    end
  end
  return false
end

if not closes(me) then
  return token .. " 0"
end
local youngest = me
for _, wait in ipairs(circle) do
  local theirs, youngest_yet = since(wait), since(youngest)
  if theirs > youngest_yet or (theirs == youngest_yet and wait.token > youngest.token) then
    youngest = wait
  end
end
if youngest ~= me then
  -- It looked before the circle was complete: let it look again. No fencing token, no grant.
  local _, _, _, _, listener = string.match(claim_in_queue(youngest), CLAIM)
  tell(listener, youngest.token .. " 0 " .. text(clock()))
  return token .. " 0"
end
leave(all, token)
settle(all)
return token .. " 1 " .. cjson.encode(circle)
