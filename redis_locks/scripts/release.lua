-- End a hold and hand the lock to the first living waiter.
--
-- KEYS: holder queue claims fence index
-- ARGV: token name
-- Reply: "token 1" released; "token 0" the token does not hold the lock (any more)

local holder = read_holder()
if holder == token then
  redis.call("DEL", holder_key)
  settle()
  return token .. " 1"
end
if not holder then
  settle()
end
return token .. " 0"
