-- Run commands and end the hold in one step, if the hold still holds; else do neither. Safe to
-- repeat within a minute.
--
-- KEYS: index holder...
-- ARGV: token
--   2... each command: the number of its words, then the words
-- Reply: "token 1"        done
--        "token 1 error"  done, but a command failed; those after it ran, as in MULTI
--        "token 0"        the token does not hold all of the locks (any more): nothing was done

if not ended then
  for _, name in ipairs(all) do
    if not held_until(name) then
      local earlier = call("GET", done)
      return token .. (earlier and " 1" .. earlier or " 0")
    end
  end
  run()
  for _, name in ipairs(all) do
    let_go(name)
  end
end
settle(all)
return token .. " 1" .. failure
