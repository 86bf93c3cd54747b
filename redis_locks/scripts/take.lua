-- Take what is free of many locks, group by group, up to a limit; never waits. Whoever waits for
-- a lock has it before. Safe to repeat: a token keeps what it took.
--
-- KEYS: index lock...
-- ARGV: token
--   2 lease, ms
--   3 mode, as in acquire
--   4 who, for people
--   5 listener, the caller's connection
--   6 most groups to take
--   7 groups, each the places of locks that are taken together or not at all: "1,2 1,3"; "-" is
--     one without locks, which counts as taken
--   8 whether the caller never asked before with this token: 1 or 0
--   9 how long ago the caller began to read which locks to take, us
--   10 how many questions of the token were broken off, if any
-- Reply: "token fence now group ..."  the numbers of the groups held now, from 1; fence 0: nothing
--                                     is held, and the groups, if any, have no locks
-- A question that is late, see `_late`, takes nothing.

--include _prelude
--include _lock
--include _modes
--include _queue
--include _late

local lease, mode, who, listener = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local most, first = tonumber(ARGV[6]), ARGV[8] == "1"
local read_ago, number = tonumber(ARGV[9]), tonumber(ARGV[10] or 0)

local groups = {}
for group in string.gmatch(ARGV[7], "%S+") do
  local places = {}
  for place in string.gmatch(group, "%d+") do
    places[#places + 1] = tonumber(place)
  end
  groups[#groups + 1] = places
end

-- The groups of whose locks all pass, after those chosen `before`, as far as the limit goes,
-- and the locks in order.
local function choose(passes, before)
  local known, wanted, chosen, numbers, locks = {}, {}, {}, {}, {}
  local function add(number)
    numbers[#numbers + 1], chosen[number] = number, true
    for _, place in ipairs(groups[number]) do
      wanted[place] = true
    end
  end
  for _, number in ipairs(before or {}) do
    add(number)
  end
  for number, places in ipairs(groups) do
    local complete = #numbers < most and not chosen[number]
    for _, place in ipairs(complete and places or {}) do
      if known[place] == nil then
        known[place] = passes(all[place], mode_at(mode, place))
      end
      complete = complete and known[place]
    end
    if complete then
      add(number)
    end
  end
  table.sort(numbers)
  local intents = 0
  for place, name in ipairs(all) do
    if wanted[place] then
      locks[#locks + 1] = name
      intents = intents + (is_intent(mode_at(mode, place)) and 1 or 0)
    end
  end
  return numbers, locks, intents
end

local function reply(fence, numbers)
  return table.concat({ token, fence, text(clock()), unpack(numbers) }, " ")
end

if number > 0 then
  if late_by(all, token, number) then
    return reply("0", {})
  end
  mark_late(all, token, number)
end

if not first then
  local numbers, locks = choose(function(name)
    return held_until(name) ~= nil
  end)
  if #locks > 0 then
    -- The reply to an earlier try was lost.
    lengthen(locks, clock() + lease)
    local _, claim = exclusive(locks[1])
    claim = claim or sharer_claim(locks[1], token)
    return reply(string.match(claim, "^%d+"), numbers)
  end
end

-- Only as many locks are looked at as are needed.
local settled, numbers, locks, intents = {}, nil, nil, nil
local function is_free(name, here)
  if state_of(name).waiting > 0 and settled[name] == nil then
    -- Perhaps only the dead stand in the queue.
    settle({ name }, true)
    settled[name], settled.now = true, true
  end
  return state_of(name).waiting == 0 and room(name, here)
end

-- Whether nobody had the lock since the caller read what it is for.
-- If somebody had, the job is done, as a rule.
local function is_fresh(name, here)
  clock()
  return (is_intent(here) or state_of(name).fence < now_us - read_ago) and is_free(name, here)
end
repeat
  -- Once more, if a set that was granted may have taken a lock that was chosen before.
  settled.now = nil
  numbers, locks, intents = choose(is_fresh)
  if #numbers < most and #numbers < #groups then
    numbers, locks, intents = choose(is_free, numbers)
  end
until not settled.now
if #locks == 0 then
  return reply("0", numbers)
end
if late_by(locks, token, number) then
  return reply("0", {})
end
local plain = mode_at(mode, #all)
mode = intents > 0 and "intent:" .. intents .. ":" .. plain or plain
local fence = next_fence(locks, clock() + lease)
hold(locks, token, fence, mode, lease, listener, who)
return reply(fence, numbers)
