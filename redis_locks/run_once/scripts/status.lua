-- Read what is known of a job. Changes nothing.
--
-- KEYS: index lock
-- ARGV: token
-- Reply: "token running attempt now ends claim"  the attempt under way: its lease and its holder
--        "token state attempt outcome"           none is: "new", "failed" or "done"

--include _job

if state == "running" and exclusive(name) == runner then
  return token .. " running " .. text(attempt) .. " " .. obstacle(all)
end
if state == "running" then
  state, outcome = "failed", "" -- its lease ended
end
return token .. " " .. state .. " " .. text(attempt) .. " " .. outcome
