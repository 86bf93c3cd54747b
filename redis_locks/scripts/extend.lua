-- Make a hold's lease last at least so long from now; never shortens it. Safe to repeat.
--
-- KEYS: holder queue claims fence index
-- ARGV: token name
--   3 lease, ms
-- Reply: "token 1 now ends"  now and the end of the lease in ms
--        "token 0"           the token does not hold the lock

if read_holder() ~= token then
  return token .. " 0"
end
local ends = now + tonumber(ARGV[3])
if redis.call("PEXPIREAT", holder_key, text(ends), "GT") == 1 then
  keep_index(ends)
end
return token .. " 1 " .. text(now) .. " " .. text(redis.call("PEXPIRETIME", holder_key))
