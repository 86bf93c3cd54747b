-- End the exclusive holds of processes that are gone, and hand the locks on. Safe to repeat.
-- Only holders that asked for it (`crash_release`) name their process's channel, as fifth field
-- of who.
--
-- KEYS: index lock...
-- ARGV: token, of whoever asks
-- Reply: "token ended"  how many holds were ended

--include _prelude
--include _lock
--include _modes
--include _queue

local CHANNEL = "^[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\t(.+)$"

local ended = 0
for _, name in ipairs(all) do
  local holder, claim = exclusive(name)
  local channel = holder and holder ~= token and string.match(claim, CHANNEL)
  if channel and call("PUBSUB", "NUMSUB", channel)[2] == 0 then
    free(state_of(name))
    save_cuts(state_of(name))
    ended = ended + 1
  end
end
if ended > 0 then
  settle(all)
end
return token .. " " .. ended
