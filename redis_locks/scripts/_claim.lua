-- How a claim is written and read; `_lock.lua` says what the words are.
-- An ENTRY of the queue is a token and its claim.

local CLAIM = "^(%d+) (%d+) (%S+) (%d+) (%S+) (%d+) (%d+) (.*)$"
local ENTRY = "^(%S+) (%d+) (%d+) (%S+) (%d+) (%S+) (%d+) (%d+) (.*)$"

-- A claim, up to who it is.
local function claim_of(fence, since, mode, lease, listener, wait, size)
  return fence .. " " .. since .. " " .. mode .. " " .. lease
    .. " " .. listener .. " " .. wait .. " " .. size
end
