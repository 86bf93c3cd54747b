-- End the exclusive holds of processes that are gone, and hand the locks on. Safe to repeat.
-- Only holders that asked for it (`crash_release`) name their process's channel, as fifth field
-- of who.
--
-- KEYS: index lock...
-- ARGV: token, of whoever asks
-- Reply: "token ended near"  how many holds were ended; and how many waiters stand between the
--                            caller and the nearer end of the queue, so that it knows how soon to
--                            look again: see `near_an_end`

--include _prelude
--include _lock
--include _modes
--include _queue

local CHANNEL = "^[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\t(.+)$"

-- Among how many places at each end of a queue to look for those that stand nearer to it.
local MOST_NEAR = 20

-- How many waiters stand between `place` and the nearer end of the queue.
-- Where many waiters gave up, it may be more.
local function near_an_end(state, place)
  local before = line(state, state.first, MOST_NEAR, math.min(place, state.first + MOST_NEAR) - 1)
  local behind = line(state, math.max(place + 1, state.last - MOST_NEAR + 1), MOST_NEAR)
  return math.max(0, math.min(
    math.max(#before / 2, state.waiting - 1 - (state.last - place)),
    math.max(#behind / 2, state.waiting - 1 - (place - state.first))
  ))
end

local ended, near = 0
for _, name in ipairs(all) do
  local holder, claim = exclusive(name)
  local channel = holder and holder ~= token and string.match(claim, CHANNEL)
  if channel then
    local state = state_of(name)
    local place = place_of(state, token)
    near = math.min(near or math.huge, place and near_an_end(state, place) or 0)
    if call("PUBSUB", "NUMSUB", channel)[2] == 0 then
      free(state)
      save_cuts(state)
      ended = ended + 1
    end
  end
end
if ended > 0 then
  settle(all)
end
return token .. " " .. ended .. " " .. (near or 0)
