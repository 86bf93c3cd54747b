-- The time in us and in ms, as text: so long a number is sooner cut than written down.

local seconds = call("TIME")
local now_us = seconds[1] .. string.sub("00000" .. seconds[2], -6)
local now = string.sub(now_us, 1, -4)

-- For the parts after this one: who is to be the holder, with what it says of itself; until when the locks
-- are to be listed; and the end of the message to the holder, if it gets one.
local heir, lease, listener, who, ends, tail
