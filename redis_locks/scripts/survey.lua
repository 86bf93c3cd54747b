-- Sum up some locks: what people need to find the one that is in trouble. Changes nothing.
-- Packed, as `names` is. It reads thousands of locks, so it takes one command for most of them.
--
-- KEYS: index lock...
-- ARGV: token (not used)
-- Reply: {now in ms, summaries}. A lock that nobody holds or waits for has none. A summary has, with a NUL between
-- each two: name, number of waiters, since when the first one waits (ms), number of holders, since when the earliest
-- one holds (ms), when the first lease ends (ms), how long that lease is (ms), the first holders, the earliest one
-- first, and the first waiters, with a newline between each two. Numbers are 0 if there are none.

--include _prelude
--include _keys
--include _claim

local MOST = 10

local parts, size = {}, 0

local function add(field)
  size = size + 1
  parts[size] = field
end

-- How many hold it, the earliest since, the first end of a lease, that lease, and who they are.
local function holders(name, key, lock, shared)
  local ends = lock.holder and tonumber(string.match(lock.holder, " (%d+)$"))
  if ends and ends >= clock() then
    local _, since, _, lease, _, _, _, who = string.match(lock.claim, CLAIM)
    return 1, since or 0, ends, lease or 0, who or ""
  end
  if shared == "0" then
    return 0, 0, 0, 0, ""
  end
  local sharers = SHARERS .. name
  local tokens = call("ZRANGEBYSCORE", sharers, text(clock()), "+inf", "WITHSCORES", "LIMIT", 0, MOST)
  if #tokens == 0 then
    return 0, 0, 0, 0, ""
  end
  local names = {}
  for i = 1, #tokens, 2 do
    names[#names + 1] = tokens[i]
  end
  local claims = call("HMGET", key, unpack(names))
  local earliest, place, lease, people = nil, 1, 0, {}
  for i, claim in ipairs(claims) do
    local _, since, _, its, _, _, _, who = string.match(claim or "", CLAIM)
    if since and (not earliest or tonumber(since) < tonumber(earliest)) then
      earliest, place = since, i
    end
    if i == 1 then
      lease = its or 0
    end
    people[i] = who or ""
  end
  people[1], people[place] = people[place], people[1]
  local count = call("ZCOUNT", sharers, text(clock()), "+inf")
  return count, earliest or 0, tokens[2], lease, table.concat(people, "\n")
end

-- Since when the first waiter waits, and who the first ones are.
local function waiters(key, first, last)
  local people, since = {}, 0
  -- Few of the first places are empty: see `first_in_line`.
  last = math.min(last, first + 10 * MOST - 1)
  while first <= last and since == 0 do
    local places = {}
    for place = first, math.min(first + MOST - 1, last) do
      places[#places + 1] = text(place)
    end
    for _, entry in ipairs(call("HMGET", key, unpack(places))) do
      if entry then
        local _, _, its, _, _, _, _, _, who = string.match(entry, ENTRY)
        since = since == 0 and its or since
        people[#people + 1] = who or ""
      end
    end
    first = first + MOST
  end
  return since, table.concat(people, "\n")
end

for _, name in ipairs(all) do
  local key = LOCK .. name
  local found = call("HMGET", key, "state", "line", "holder", "claim", "who", "label")
  local protocol, _, _, _, shared = string.match(found[1] or "", STATE)
  -- A lock that a version with another protocol uses cannot be read.
  if protocol == PROTOCOL then
    local lock = { holder = found[3], claim = (found[4] or "") .. " " .. (found[5] or "") .. (found[6] or "") }
    local holding, held_since, ends, lease, who = holders(name, key, lock, shared)
    if holding > 0 or found[2] then
      local since, queue, waiting = 0, "", "0"
      if found[2] then
        local first, last
        first, last, waiting = string.match(found[2], LINE)
        since, queue = waiters(key, tonumber(first), tonumber(last))
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
    end
  end
end
return { text(clock()), table.concat(parts, "\0") }
