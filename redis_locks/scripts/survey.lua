-- Sum up some locks: what people need to find the one that is in trouble. Changes nothing.
-- Packed, as `names` is. It reads thousands of locks, so it takes one command for most of them.
--
-- KEYS: index lock...
-- ARGV: token (not used)
--   2 1: ask whether the processes of the holders listen; no node of a cluster knows that
-- Reply: {now in ms, summaries}. A lock that nobody holds or waits for has none. A summary has,
-- with a NUL between each two: name, number of waiters, since when the first one waits (ms), number
-- of holders, since when the earliest one holds (ms), when the first lease ends (ms), how long that
-- lease is (ms), the first holders, the earliest one first, and the first waiters, with a newline
-- between each two; how many of the first holders are gone; the tokens of waiters that want several
-- locks, with a space between each two; and how many waiters were not looked at for that. Numbers
-- are 0 if there are none. Of a lock that a version with another protocol uses, it says until when
-- the lease lasts. In place of the holders stands the number of that protocol.

--include _prelude
--include _keys
--include _claim

local MOST = 10
-- So many places of a queue are looked at at least, and so many more in all.
local PLACES, places_left = 25, 100

-- A process listens to its holders' channel soon after a hold begins:
-- see `connected` in `story.py`.
local LISTENS_FROM_MS = 2000
-- How many letters of a token name the process.
local PROCESS = 16
local HOLDERS = string.gsub(index, "{%d+}:index$", ":holders:")
local listening = {}

-- 1 if the process of a hold does not listen, as it has died or is cut off; else 0. What only keeps
-- a lock closed, without a lease that is renewed, has no process: see `close`.
local function gone(holder, since, lease)
  if ARGV[2] ~= "1" or lease == "0" or clock() - since < LISTENS_FROM_MS then
    return 0
  end
  local process = string.sub(holder, 1, PROCESS)
  if listening[process] == nil then
    local heard = redis.pcall("PUBSUB", "NUMSUB", HOLDERS .. process)
    -- An error, if this user may not ask.
    listening[process] = heard.err ~= nil or heard[2] > 0
  end
  return listening[process] and 0 or 1
end

local parts, size = {}, 0

local function add(field)
  size = size + 1
  parts[size] = field
end

-- How many hold it, the earliest since, the first end of a lease, that lease, who they are,
-- and how many are gone.
local function holders(name, key, lock, shared)
  local ends = lock.holder and tonumber(string.match(lock.holder, " (%d+)$"))
  if ends and ends >= clock() then
    local _, since, _, lease, _, _, _, who = string.match(lock.claim, CLAIM)
    local left = gone(lock.holder, tonumber(since or clock()), lease)
    return 1, since or 0, ends, lease or 0, who or "", left
  end
  if shared == "0" then
    return 0, 0, 0, 0, "", 0
  end
  local sharers = SHARERS .. name
  local tokens = call("ZRANGEBYSCORE", sharers, text(clock()), "+inf", "WITHSCORES",
    "LIMIT", 0, MOST)
  if #tokens == 0 then
    return 0, 0, 0, 0, "", 0
  end
  local names = {}
  for i = 1, #tokens, 2 do
    names[#names + 1] = tokens[i]
  end
  local claims = call("HMGET", key, unpack(names))
  local earliest, place, lease, people, left = nil, 1, 0, {}, 0
  for i, claim in ipairs(claims) do
    local _, since, _, its, _, _, _, who = string.match(claim or "", CLAIM)
    if since and (not earliest or tonumber(since) < tonumber(earliest)) then
      earliest, place = since, i
    end
    if i == 1 then
      lease = its or 0
    end
    people[i] = who or ""
    left = left + gone(names[i], tonumber(since or clock()), its)
  end
  people[1], people[place] = people[place], people[1]
  local count = call("ZCOUNT", sharers, text(clock()), "+inf")
  return count, earliest or 0, tokens[2], lease, table.concat(people, "\n"), left
end

-- Since when the first waiter waits, who the first ones are, which want several locks,
-- and how many were not looked at.
local function waiters(key, first, last, waiting)
  local people, several, since, seen = {}, {}, 0, 0
  local left = places_left
  repeat
    local places = {}
    for place = first, math.min(first + PLACES - 1, last) do
      places[#places + 1] = text(place)
    end
    for _, entry in ipairs(#places > 0 and call("HMGET", key, unpack(places)) or {}) do
      if entry then
        local waiter, _, its, _, _, _, _, size, who = string.match(entry, ENTRY)
        since = since == 0 and its or since
        if seen < MOST then
          people[#people + 1] = who or ""
        end
        if size and size ~= "1" then
          several[#several + 1] = waiter
        end
        seen = seen + 1
      end
    end
    first, left = first + PLACES, left - #places
  until first > last or seen >= waiting or left <= 0
  places_left = math.max(0, left)
  return since, table.concat(people, "\n"), table.concat(several, " "), math.max(0, waiting - seen)
end

for _, name in ipairs(all) do
  local key = LOCK .. name
  local found = call("HMGET", key, "state", "line", "holder", "claim", "who", "label")
  local protocol, _, _, _, shared = string.match(found[1] or "", STATE)
  if found[1] and protocol ~= PROTOCOL then
    local number, _, ends = common(found[1], found[3])
    if ends >= clock() then
      for _, field in ipairs({ name, 0, 0, 1, 0, text(ends), 0, number, "", 0, "", 0 }) do
        add(field)
      end
    end
  elseif found[1] then
    local claim = (found[4] or "") .. " " .. (found[5] or "") .. (found[6] or "")
    local lock = { holder = found[3], claim = claim }
    local holding, held_since, ends, lease, who, left = holders(name, key, lock, shared)
    if holding > 0 or found[2] then
      local since, queue, waiting, several, unseen = 0, "", "0", "", 0
      if found[2] then
        local first, last
        first, last, waiting = string.match(found[2], LINE)
        since, queue, several, unseen = waiters(
          key, tonumber(first), tonumber(last), tonumber(waiting)
        )
      end
      add(name)
      add(waiting)
      add(since)
      add(holding)
      add(held_since)
      add(ends)
      add(lease)
      add(who)
      add(queue)
      add(left)
      add(several)
      add(unseen)
    end
  end
end
return { text(clock()), table.concat(parts, "\0") }
