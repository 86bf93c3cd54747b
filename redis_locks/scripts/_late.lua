-- Questions that come late. When a connection breaks, the network may still deliver what was sent
-- on it: TCP tries for some 15 minutes. Meanwhile the caller has asked again, has held and released
-- the locks, or has given up. Its token must not be granted anything then. So each question has a
-- number: how many questions of its token were broken off before. A caller that asks or gives up
-- after a break leaves its number as a mark. A question with a lower number is late.
--
-- The mark is a key of the token. The field `late` of a lock says until when some token may have
-- one. So questions for other locks look for none.

local LATE_KEPT_MS = 1200000

-- Let no earlier question of `asker` get one of the locks.
local function mark_late(locks, asker, number)
  call("SET", LATE .. asker, number, "PX", LATE_KEPT_MS)
  for _, name in ipairs(locks) do
    local state = state_of(name)
    put(state, "late", text(clock() + LATE_KEPT_MS))
    keep(state, now)
    save(state)
  end
end

-- The mark of `asker`, if a question of it with this number is late; else nil.
local function late_by(locks, asker, number)
  local marked = false
  for _, name in ipairs(locks) do
    local state = state_of(name)
    if state.late and tonumber(state.late) < clock() then
      state.late = nil
      cut(state, "late")
      save_cuts(state)
    end
    marked = marked or state.late
  end
  local mark = marked and tonumber(call("GET", LATE .. asker) or 0) or 0
  return mark > number and mark or nil
end
