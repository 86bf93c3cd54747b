-- The way of nearly every release: locks held exclusively that nobody waits for, or all of them first a
-- single exclusive waiter that lives. The rest of `release` would come to the same end.

local ended = holds()
if ended and hand_on() then
  return token .. " 1"
end
