-- Leave the queue; a grant that crossed the leaving on its way is handed on.
--
-- KEYS: holder queue claims fence index
-- ARGV: token name
-- Reply: "token now ends claim"  now and the end of the holder's lease in ms, and its claim
--        "token now 0"           nobody holds the lock

if redis.call("HDEL", claims, token) == 1 then
  redis.call("LREM", queue, 1, token)
end
local holder, claim = read_holder()
if holder == token then
  redis.call("DEL", holder_key)
  holder = nil
end
if not holder then
  settle()
  holder, claim = read_holder()
end
if not holder then
  return token .. " " .. text(now) .. " 0"
end
return token .. " " .. text(now) .. " " .. text(redis.call("PEXPIRETIME", holder_key)) .. " " .. claim
