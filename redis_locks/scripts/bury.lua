-- End the exclusive holds of processes that are gone, and hand the locks on. Safe to repeat.
-- Only holders that asked for it (`crash_release`) name their process's channel, as fifth field
-- of who.
--
-- KEYS: index lock...
-- ARGV: token, of whoever asks
-- Reply: "token buried"  how many holds were ended

--include _prelude
--include _lock
--include _modes
--include _queue

local EAR = "^[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\t(.+)$"

local buried = 0
for _, name in ipairs(all) do
  local holder, claim = exclusive(name)
  local ear = holder and holder ~= token and string.match(claim, EAR)
  if ear and call("PUBSUB", "NUMSUB", ear)[2] == 0 then
    free(state_of(name))
    save_cuts(state_of(name))
    buried = buried + 1
  end
end
if buried > 0 then
  settle(all)
end
return token .. " " .. buried
