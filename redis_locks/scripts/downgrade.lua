-- Turn an exclusive hold into a shared one, with the lease it has, and let shared waiters in.
-- Safe to repeat.
--
-- KEYS: index lock...
-- ARGV: token
-- Reply: "token 1" done; "token 0" the token does not hold all of the locks (any more)

--include _prelude
--include _lock
--include _modes
--include _queue

for _, name in ipairs(all) do
  if not held_until(name) then
    return token .. " 0"
  end
end
for _, name in ipairs(all) do
  if exclusive(name) then
    become_shared(name, token)
  end
end
settle(all)
return token .. " 1"
