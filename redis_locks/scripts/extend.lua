-- Make a hold's lease last at least so long from now; never shortens it. Safe to repeat.
--
-- KEYS: index lock...
-- ARGV: token
--   2 lease, ms
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
local ends = lengthen(all, clock() + tonumber(ARGV[2]))
return token .. " 1 " .. text(now) .. " " .. text(ends)
