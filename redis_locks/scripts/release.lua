-- End a hold of all its locks and hand them to the first living waiters.
--
-- KEYS: index lock...
-- ARGV: token
-- Reply: "token 1" released; "token 0" the token does not hold all of the locks (any more)

--include _prelude

local before_end, failure = nil, ""

--include _end
--include _lock
--include _modes
--include _queue

local complete = true
for _, name in ipairs(all) do
  if alone then
    free(state_of(name))
    save_cuts(state_of(name))
  else
    local state, was_alone = state_of(name), exclusive(name) == token
    complete = let_go(name, token) and complete
    if was_alone then
      -- Of sets: `take` sees by the fence whether somebody had a row since its caller read it.
      state.fence, state.changed = math.max(state.fence, now_us), true
    end
  end
end
settle(all)
return token .. (complete and " 1" or " 0")
