-- Run commands and end the hold in one step, if the hold still holds; else do neither. Safe to
-- repeat within a minute.
--
-- KEYS: index lock...
-- ARGV: token
--   2... each command: the number of its words, then the words
-- Reply: "token 1"        done
--        "token 1 error"  done, but a command failed; those after it ran, as in MULTI
--        "token 0"        the token does not hold all of the locks (any more): nothing was done

--include _prelude

local done = string.sub(index, 1, -6) .. DONE_KEY .. token
local failure = ""
local MOST_WORDS = 7000

-- Run the commands; those after one that fails as well.
local function before_end()
  -- Lua takes no more words at once; refused before any command ran.
  local place = 2
  while ARGV[place] do
    if tonumber(ARGV[place]) > MOST_WORDS then
      error({ err = "ERR a command of a commit has more than " .. MOST_WORDS .. " words" })
    end
    place = place + 1 + ARGV[place]
  end
  -- The reply may be lost; who asks again must learn that it was done. Written first, so that a
  -- server out of memory refuses before any command ran.
  if not call("SET", done, failure, "PX", DONE_KEPT_MS, "NX") then
    -- The commands ran before, and after them the server refused what our user may not run.
    failure = call("GET", done)
    return
  end
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
    call("SET", done, failure, "PX", DONE_KEPT_MS)
  end
end

--include _end
--include _lock
--include _modes
--include _queue

if not alone then
  for _, name in ipairs(all) do
    if not held_until(name) then
      local earlier = call("GET", done)
      return token .. (earlier and " 1" .. earlier or " 0")
    end
  end
  before_end()
end
for _, name in ipairs(all) do
  if alone then
    free(state_of(name))
    save_cuts(state_of(name))
  else
    let_go(name, token)
  end
end
settle(all)
return token .. " 1" .. failure
