-- Take free locks, all or none, or join their queues. Safe to repeat: a token keeps its hold
-- or its place.
--
-- KEYS: index lock...
-- ARGV: token
--   2 lease, ms
--   3 mode; "intent:N:MODE" is the intent of MODE for the first N locks and MODE for the others
--   4 who, for people
--   5 listener, the caller's connection
--   6 wait, ms: 0 do not join the queue, -1 wait for ever
--   7 whether the caller never asked before with this token: 1 or 0;
--     2: never, and it reads no reply
--   8 how many questions of the token were broken off, if any
--   9 how many may wait for each lock, if that has a bound
-- Reply: "token 1 fence now"        granted; now in ms
--        "token 0 now ends claim"   not; when a holder's lease ends in ms, and its claim;
--                                   "ends/PLACE" if it holds another lock than the first
--        "token 2"                  an upgrade: the shared hold that it started from is lost
--        "token 3"                  its wait was cancelled; see `cancel`
--        "token 5 now ends claim"  as 0, and it did not join the queue, since that is full
--        "token 4 N"                the question is late, see `_late`. If somebody reads this, the
--                                   token is used again, and is to ask as if N questions of it were
--                                   broken off
-- To a caller that reads no reply, a grant is told as to those who wait, with " 1" at its end; and
-- it may be "token 0" alone.

--include _prelude

--include _claim

-- Nearly all locks are wanted exclusively, for the first time, and are free, or the first has an
-- exclusive holder. That way comes before the other parts. It does what the rest of the script
-- would do, where no expiry is due.
local message
if ARGV[7] ~= "0" and ARGV[3] == "exclusive" then
  local lease, who, listener, wait = ARGV[2], ARGV[4], ARGV[5], ARGV[6]
  local time = call("TIME")
  now_us = time[1] * 1000000 + time[2]
  now = math.floor(now_us / 1000)
  local ends, last_fence, usual, free = now + lease, 0, true, true
  -- As text: Lua and the server write the same number again each time.
  local now_ms, ends_ms = string.format("%.0f", now), string.format("%.0f", ends)
  local expiries, listed, lines, first, until_ms = {}, {}, {}, nil, nil
  for place = 2, #KEYS do
    local found = call("HMGET", KEYS[place],
      "state", "line", "holder", "claim", "who", "label", "late")
    local number, shared_until, fence, expires, sharers = PROTOCOL, 0, 0, 0, "0"
    if found[1] then
      number, shared_until, fence, expires, sharers = string.match(found[1], STATE)
    end
    local its_end = found[3] and string.match(found[3], "%d+$")
    local held = its_end and tonumber(its_end) >= now
    if place == 2 then
      first, until_ms = found, held and its_end
    end
    -- Not if a label is left of a holder whose lease ended.
    usual = usual and number == PROTOCOL and (held or not found[6])
    if found[7] then
      local late = string.sub(index, 1, -6) .. LATE_KEY .. token
      -- Not if the question is late.
      usual = usual and tonumber(found[7]) >= now and call("EXISTS", late) == 0
    end
    free = free and not held and not found[2] and sharers == "0"
    last_fence = math.max(last_fence, tonumber(fence or 0))
    expiries[place], lines[place] = expires, found[2]
    listed[2 * place - 3], listed[2 * place - 2] = ends_ms, string.sub(KEYS[place], #index + 1)
  end
  if usual and free and call("PEXPIRETIME", index) >= ends then
    call("ZADD", index, "GT", unpack(listed))
    local holder, fence = token, string.format("%.0f", math.max(last_fence + 1, now_us))
--include _exclusive
    message = fence .. " " .. now_ms
    if ARGV[7] == "1" then
      return token .. " 1 " .. message
    end
  elseif
    usual
    and until_ms
    and not ARGV[9]
    and string.sub(first[3], 1, #token + 1) ~= token .. " "
  then
    local joins, kept = wait ~= "0", now + math.max(lease, WAITER_KEPT_MS)
    if joins then
      for place = 2, #KEYS do
        usual = usual and tonumber(expiries[place]) >= kept + FENCE_KEPT_MS
      end
      usual = usual and (#KEYS == 2 or call("PEXPIRETIME", index) >= kept)
    end
    if usual and joins then
      local most = wait == "-1" and "0" or wait
      local claim = claim_of("0", now_ms, "exclusive", lease, listener, most, #KEYS - 1)
      local entry = token .. " " .. claim .. " " .. who
      for place = 2, #KEYS do
        local front, last, waiting = 1, 0, 0
        if lines[place] then
          front, last, waiting = string.match(lines[place], LINE)
        end
        last = last + 1
        local line = front .. " " .. last .. " " .. waiting + 1
        call("HSET", KEYS[place], "line", line, token, last, last, entry)
      end
      if #KEYS > 2 then
        local set, names = string.sub(index, 1, -6) .. SET_KEY .. token, {}
        for place = 2, #KEYS do
          listed[2 * place - 3], names[place - 1] = kept, listed[2 * place - 2]
        end
        call("RPUSH", set, unpack(names))
        call("PEXPIREAT", set, kept + 4000)
        call("ZADD", index, "GT", unpack(listed))
      end
    end
    if usual then
      return token .. " 0 " .. now_ms .. " " .. until_ms
        .. " " .. first[4] .. " " .. first[5] .. (first[6] or "")
    end
  end
end

--include _messages

if message then
  tell(ARGV[5], token .. " " .. message .. " 1")
  return token .. " 1 " .. message
end

--include _lock

local lease, mode, who = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local listener, wait, first = ARGV[5], tonumber(ARGV[6]), ARGV[7] ~= "0"
local number, most_waiting = tonumber(ARGV[8] or 0), tonumber(ARGV[9] or math.huge)
local kept = clock() + math.max(lease, WAITER_KEPT_MS)

local function granted(fence)
  local message = fence .. " " .. now
  if ARGV[7] == "2" then
    tell(listener, token .. " " .. message .. " 1")
  end
  return token .. " 1 " .. message
end

-- Not below 1, whatever the clock does: 0 is for ever.
local function wait_since(since)
  return wait < 0 and "0" or text(math.max(now + wait - since, 1))
end

--include _modes
--include _queue
--include _late

if not first and call("EXISTS", DONE .. token) == 1 then
  return token .. " 3"
end

local mark = late_by(all, token, number)
if mark then
  return token .. " 4 " .. mark
end
if number > 0 then
  mark_late(all, token, number)
end

local upgrade = upgraded(mode) ~= nil

-- Whether an upgrade has lost a lock of its set: what it started from, or what it got already.
local function lost()
  for _, name in ipairs(all) do
    if not shares(name, upgraded(mode)) and not held_until(name) then
      return true
    end
  end
  return false
end

local function drop_all()
  for _, name in ipairs(all) do
    let_go(name, token)
  end
  take_out(all, token)
  settle(all)
end

if upgrade and lost() then
  drop_all()
  return token .. " 2"
end

local function take()
  if upgrade and not first then
    -- It does not wait for those in the queue, but may stand there.
    take_out(all, token)
  end
  local fence = next_fence(all, now + lease)
  hold(all, token, fence, mode, lease, listener, who)
  return granted(fence)
end

if not first then
  local held = 0
  for _, name in ipairs(all) do
    held = held + (held_until(name) and 1 or 0)
  end
  if held == #all then
    -- The reply to an earlier try was lost.
    lengthen(all, now + lease)
    local _, claim = exclusive(all[1])
    claim = claim or sharer_claim(all[1], token)
    return granted(string.match(claim, "^%d+"))
  end
  if held > 0 then
    -- Some of the set were taken away meanwhile: all or none.
    drop_all()
  end
end

local holder = exclusive(all[1])
local blocked = holder and holder ~= token

-- An upgrade goes before the queue: those in it wait for its shared hold, too.
local function in_the_way(place, name)
  return not (upgrade or state_of(name).waiting == 0) or not room(name, mode_at(mode, place))
end

local function is_free()
  for place, name in ipairs(all) do
    if in_the_way(place, name) then
      return false
    end
  end
  return true
end

-- Whether the caller stands in all queues that it should.
local function in_line()
  for place, name in ipairs(all) do
    if not is_intent(mode_at(mode, place)) and not place_of(state_of(name), token) then
      return false
    end
  end
  return #all == 1 or call("LLEN", SET .. token) == #all
end

local LONG_WAIT_MS = 1000

-- Note the locks for `long_waits`. The sets go by themselves: no hand-off pays for taking a lock
-- out. Nothing depends on them.
local function note_long_wait(since)
  local window, scores = math.floor(now / LONG_WAITS_MS), {}
  for place, name in ipairs(all) do
    scores[2 * place - 1], scores[2 * place] = since, name
  end
  local added = redis.pcall("ZADD", LONG_WAITS .. window, "LT", unpack(scores))
  if type(added) == "number" and added > 0 then
    redis.pcall("PEXPIREAT", LONG_WAITS .. window, text((window + 3) * LONG_WAITS_MS))
  end
end

local function is_full()
  for _, name in ipairs(all) do
    if state_of(name).waiting >= most_waiting then
      return true
    end
  end
  return false
end

-- Whether the caller stands in the queue now; not if a queue is full.
local function join()
  -- In the queue already: keep place and time, but listen where the caller listens now.
  local earlier = not first and waiter_claim(state_of(all[#all]), token)
  local since = earlier and string.match(earlier, "^%d+ (%d+)") or text(now)
  local claim = claim_of("0", since, mode, ARGV[2], listener, wait_since(since), #all) .. " " .. who
  local joined = earlier and in_line()
  if not joined and not first then
    -- It lost its place in one of the queues, or in all: to the end.
    take_out(all, token)
  end
  if not (joined or upgrade) and is_full() then
    return false
  end
  for place, name in ipairs(all) do
    local state, here = state_of(name), mode_at(mode, place)
    local intent = is_intent(here)
    local stands = joined and place_of(state, token)
    -- Where it has an intent, it stands only as long as that lock is in its way; see `fits`.
    if stands then
      put(state, text(stands), token .. " " .. claim)
    elseif
      not intent
      or (joined and not room(name, here))
      or (not joined and in_the_way(place, name))
    then
      stand(state, token, claim, upgrade)
    end
    keep(state, kept)
    save(state)
  end
  want_set(token, all, kept)
  if earlier and now - since >= LONG_WAIT_MS then
    note_long_wait(since)
  end
  return true
end

if not blocked and is_free() then
  return take()
end
local waits = wait ~= 0 and join()
-- Who asks again may have been told to work off the queue of a lock that is free
-- beside one that is not.
if not blocked or (#all > 1 and not first) then
  local fence = settle(all, true)
  if fence then
    return granted(fence)
  end
  -- Perhaps the dead stood in the queue, and the caller did not.
  if not waits and not blocked and is_free() then
    return take()
  end
  waits = waits or (wait ~= 0 and join())
end

return token .. ((wait == 0 or waits) and " 0 " or " 5 ") .. obstacle(all, mode)
