-- List one part of the index, in the order in which leases end. Changes nothing.
-- In parts, so that a listing of many locks never keeps the others waiting for long, and
-- packed into one string, which a client reads many times faster than a list.
--
-- KEYS: index
-- ARGV: token (not used)
--   2 earliest lease end, ms
--   3 how many names with no earlier lease end to skip
--   4 most names to return
--   5 1: with the length of each one's queue
-- Reply: {names with a NUL between each two, lease end of the last one in ms, lengths with a
-- space between each two}; all empty if there is none.

--include _prelude
--include _keys

local from, skip, most, lengths = ARGV[2], ARGV[3], ARGV[4], {}
local found = call("ZRANGEBYSCORE", index, from == "0" and text(clock()) or from, "+inf",
  "LIMIT", skip, most)
if #found == 0 then
  return { "", "", "" }
end
if ARGV[5] == "1" then
  -- A lock that a version with another protocol uses is listed, too,
  -- without the length of its queue.
  for i, name in ipairs(found) do
    local lock = call("HMGET", LOCK .. name, "state", "line")
    lengths[i] = string.match(lock[1] or "", STATE) == PROTOCOL
        and string.match(lock[2] or "", "%d+$")
      or "0"
  end
end
return {
  table.concat(found, "\0"),
  call("ZSCORE", index, found[#found]),
  table.concat(lengths, " "),
}
