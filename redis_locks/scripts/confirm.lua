-- Extend a hold as `extend` does, and write something in any case. Safe to repeat.
-- WAIT waits for the last write of its own connection, and replicas that have that one have all
-- before it, the grant by somebody else's connection included.
--
-- KEYS: index lock...
-- ARGV: token
--   2 lease, ms; never shortens what is left
-- Reply: "token 1 now ends"  now and the end of the lease in ms
--        "token 0"           the token does not hold all of the locks (any more)

--include _prelude
--include _lock
--include _modes

for _, name in ipairs(all) do
  if not held_until(name) then
    return token .. " 0"
  end
end
-- A lease that is as long already is not written. This is, whatever was there.
state_of(all[1]).changed = true
save(state_of(all[1]))
local ends = lengthen(all, clock() + tonumber(ARGV[2]))
return token .. " 1 " .. text(now) .. " " .. text(ends)
