-- Of commit, after `_held.lua`: what the locks protect is written before they are free.

local done = tag .. "done:" .. token

-- Run the commands; those after one that fails as well.
local function run()
  -- The reply may be lost; who asks again must learn that it was done. Written first, so that a
  -- server out of memory refuses before any command ran.
  call("SET", done, failure, "PX", 60000)
  local position = 2
  while ARGV[position] do
    local words = tonumber(ARGV[position])
    local reply = redis.pcall(unpack(ARGV, position + 1, position + words))
    if failure == "" and type(reply) == "table" and reply.err then
      failure = " " .. reply.err
    end
    position = position + 1 + words
  end
  if failure ~= "" then
    call("SET", done, failure, "PX", 60000)
  end
end

if ended then
  run()
end
