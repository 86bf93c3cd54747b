-- Take free locks, all or none, or join their queues. Safe to repeat: a token keeps its hold
-- or its place.
--
-- KEYS: index holder...
-- ARGV: token
--   2 lease, ms
--   3 mode; "intent:N:MODE" is the intent of MODE for the first N locks and MODE for the others
--   4 who, for people
--   5 listener, the caller's connection
--   6 wait, ms: 0 do not join the queue, -1 wait for ever
--   7 whether the caller never asked before with this token: 1 or 0; 2: never, and it reads no reply
-- Reply: "token 1 fence now"        granted; now in ms
--        "token 0 now ends claim"   not; when a holder's lease ends in ms, and its claim;
--                                   "ends/PLACE" if it holds another lock than the first
--        "token 2"                  an upgrade: the shared hold that it started from is lost
-- To a caller that reads no reply, a grant is told as to those who wait, with " 1" at its end; and it may be "token 0" alone.

local lease, mode, who, listener, wait = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])

local function granted(fence)
  local grant = fence .. " " .. text(clock())
  if ARGV[7] == "2" then
    tell(listener, token .. " " .. grant .. " 1")
  end
  return token .. " 1 " .. grant
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

if upgrade and lost() then
  for _, name in ipairs(all) do
    let_go(name)
  end
  leave(all, token)
  settle(all)
  return token .. " 2"
end

local first = ARGV[7] ~= "0"

local function take()
  if upgrade and not first then
    -- It does not wait for those in line, but may stand there.
    leave(all, token)
  end
  local fence = next_fence(all, clock() + lease)
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
    lengthen(all, clock() + lease)
    local _, claim = exclusive(all[1])
    claim = claim or call("HGET", CLAIMS .. all[1], token)
    return granted(string.match(claim, "^%d+"))
  end
  if held > 0 then
    -- Some of the set were taken away meanwhile: all or none.
    for _, name in ipairs(all) do
      let_go(name)
    end
    settle(all)
  end
end

local holder = exclusive(all[1])
local blocked = holder and holder ~= token

-- An upgrade goes before the queue: those in it wait for its shared hold, too.
local function in_the_way(place, name)
  return not (upgrade or call("EXISTS", QUEUE .. name) == 0) or not room(name, mode_at(mode, place))
end

local function free()
  for place, name in ipairs(all) do
    if in_the_way(place, name) then
      return false
    end
  end
  return true
end

local function stands(name)
  return call("HEXISTS", CLAIMS .. name, token) == 1 and call("LPOS", QUEUE .. name, token)
end

-- Whether the caller stands in all queues that it should.
local function in_line()
  for place, name in ipairs(all) do
    if not is_intent(mode_at(mode, place)) and not stands(name) then
      return false
    end
  end
  return #all == 1 or call("LLEN", SET .. token) == #all
end

local function join()
  local kept = clock() + math.max(lease, WAITER_KEPT_MS)
  -- In line already: keep place and time, but listen where the caller listens now.
  local claim = call("HGET", CLAIMS .. all[#all], token)
  local since = claim and string.match(claim, "^%d+ (%d+)") or text(clock())
  -- Not below 1, whatever the clock does: 0 is for ever.
  local most = wait < 0 and "0" or text(math.max(clock() + wait - since, 1))
  local joined = claim and in_line()
  if not joined and not first then
    -- Its place expired in one of the queues, or in all: to the end.
    leave(all, token)
  end
  for place, name in ipairs(all) do
    local here = mode_at(mode, place)
    local intent = is_intent(here)
    local stood = joined and (not intent or stands(name))
    -- Where it has an intent, it stands only as long as that lock is in its way; see `fits`.
    local waits = stood or not intent or (joined and not room(name, here)) or (not joined and in_the_way(place, name))
    if waits and not stood then
      -- Before the claim: should a key of a foreign type stop the script, nothing is left.
      call(upgrade and "LPUSH" or "RPUSH", QUEUE .. name, token)
    end
    if waits then
      call("HSET", CLAIMS .. name, token, waiting_claim(since, mode, ARGV[2], listener, most, #all, who))
      keep_queue(name, kept)
      expire(CLAIMS .. name, kept)
    else
      call("HDEL", CLAIMS .. name, token)
    end
    if #all > 1 then
      if waits then
        -- A lock of the set may have no holder, who lists it else.
        keep_index(name, kept)
      end
      if not joined then
        call("RPUSH", SET .. token, name)
      end
      expire(SET .. token, kept + WAITER_SLACK_MS)
    end
  end
end

if not blocked and free() then
  return take()
end
if wait ~= 0 then
  join()
end
if not blocked then
  local fence = settle(all)
  if fence then
    return granted(fence)
  end
  -- Perhaps only the dead stood in line, and the caller did not.
  if wait == 0 and free() then
    return take()
  end
end

return token .. " 0 " .. obstacle(all, mode)
