-- End a hold of all its locks and hand them to the first living waiters.
--
-- KEYS: index holder...
-- ARGV: token
-- Reply: "token 1" released; "token 0" the token does not hold all of the locks (any more)

local complete = true
for _, each in ipairs(all) do
  if not (ended or let_go(each)) then
    complete = false
  end
end
settle(all)
return token .. (complete and " 1" or " 0")
