-- Messages to those who wait.

-- A listener's channel begins so. Spelled here, as a claim that had it would take more memory. It
-- is in no partition, so the hash tag goes; on a cluster it stays, see `on_cluster`.
local GRANTS = string.gsub(index, "{%d+}:index$", ":grants:")

-- Tell `listener`, and return how many heard it. Not to the listeners of replicas: one
-- that still listens to a server which was the primary before would believe in a grant that
-- nobody heard here, and that somebody else got then.
--
-- A listener with a plus at its end waits for the list of its turn, too, with what it wants to read
-- then behind that in its connection: so the server goes on there by itself, once this script has
-- ended.
local function tell(listener, message)
  redis.set_repl(redis.REPL_NONE)
  local heard = call("PUBLISH", GRANTS .. listener, message)
  if string.sub(listener, -1) == "+" then
    local waiter, fence = string.match(message, "^(%S+) (%S+)")
    local turn = string.sub(index, 1, -6) .. "turn:" .. waiter
    -- Nothing depends on it: without, the waiter reads by itself a moment later.
    redis.pcall("RPUSH", turn, fence)
    redis.pcall("PEXPIRE", turn, 100)
  end
  redis.set_repl(redis.REPL_ALL)
  return heard
end
