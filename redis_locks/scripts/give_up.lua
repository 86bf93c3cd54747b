-- Give up a wait. A grant that was on its way then is handed on, but an upgrade
-- that was granted goes back to the shared hold it came from.
--
-- KEYS: index lock...
-- ARGV: token
--   2 mode, as in acquire
--   3 how many questions of the token were broken off, if any:
--     they are late from now on, see `_late`
-- Reply: "token now ends claim"  who holds a lock, as in acquire; ends 0 and no claim: nobody
--        "token 2"               an upgrade: the shared hold that it started from is lost

--include _prelude
--include _lock
--include _modes
--include _queue
--include _late

local from = upgraded(ARGV[2])

for _, name in ipairs(all) do
  if from and exclusive(name) == token then
    become_shared(name, from)
  else
    let_go(name, token)
  end
end
-- After that: a sharer's claim says which mode there is one less of.
take_out(all, token)
settle(all)
if ARGV[3] then
  -- If the server is out of memory, the caller has given up all the same.
  pcall(mark_late, all, token, ARGV[3])
end
for _, name in ipairs(all) do
  if from and not shares(name, from) then
    return token .. " 2"
  end
end
return token .. " " .. obstacle(all, ARGV[2])
