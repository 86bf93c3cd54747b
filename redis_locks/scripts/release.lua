-- End a hold of all its locks and hand them to the first living waiters.
--
-- KEYS: index holder...
-- ARGV: token
-- Reply: "token 1" released; "token 0" the token does not hold all of the locks (any more)

local held = 0
for _, name in ipairs(all) do
  if let_go(name) then
    held = held + 1
  end
end
settle(all)
return token .. (held == #all and " 1" or " 0")
