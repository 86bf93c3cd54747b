-- Turn a hold into one of another token: of another thread, process or machine. Safe to repeat.
-- Lock, mode and fencing token stay; nobody can come in between. On its way it has one of nobody's.
--
-- KEYS: index lock...
-- ARGV: token, of the hold as it is
--   2 the token that it gets
--   3 lease, ms; never shortens what is left
--   4 who, for people
--   5 fencing token that the hold has by now; a higher one stays
--   6 how many questions of the token that it gets were broken off, if any
-- Reply: "token 1 now ends fence"  now and the end of the lease in ms
--        "token 0"                 the token does not hold all of the locks (any more), or the
--                                  question is late, see `_late`

--include _prelude
--include _lock
--include _modes
--include _late

local heir, lease, who, fence_now = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])

-- The claim of a hold, and when its lease ends (ms).
local function of(name, holder)
  local alone, claim, ends = exclusive(name)
  if alone then
    return alone == holder and claim, ends
  end
  ends = shares(name, holder)
  if ends then
    return sharer_claim(name, holder), ends
  end
end

local function all_of(holder)
  for _, name in ipairs(all) do
    if not of(name, holder) then
      return false
    end
  end
  return true
end

local moved = all_of(heir)
if not moved and (not all_of(token) or late_by(all, heir, tonumber(ARGV[6] or 0))) then
  return token .. " 0"
end
local claim
local soonest, latest = math.huge, clock() + lease
for _, name in ipairs(all) do
  local its, ends = of(name, moved and heir or token)
  claim, soonest, latest = its, math.min(soonest, ends), math.max(latest, ends)
end
local fence, _, mode, _, listener = string.match(claim, CLAIM)
if not moved then
  fence = text(math.max(tonumber(fence), fence_now))
  soonest = latest
  for _, name in ipairs(all) do
    let_go(name, token)
    save_cuts(state_of(name))
  end
  list(all, latest)
  hold(all, heir, fence, mode, latest - now, listener, who)
end
return token .. " 1 " .. text(now) .. " " .. text(soonest) .. " " .. fence
