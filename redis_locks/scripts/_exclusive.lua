-- Of usual ways: write down `holder` as the exclusive holder of all the locks, until `ends`. It is
-- no function, so that `acquire` and `_end` take it each where its usual way is. Of each lock it
-- needs when its key goes, from `expiries`, and how its queue reads now, from `lines`, if that has
-- changed.
do
  local claim = claim_of(fence, now_ms, "exclusive", lease, listener, "0", #KEYS - 1)
  for place = 2, #KEYS do
    local key, expires, line = KEYS[place], expiries[place], lines[place]
    local moved = tonumber(expires) < ends + FENCE_KEPT_MS
    if moved then
      expires = ends + FENCE_KEPT_MS + EXPIRY_SLACK_MS
    end
    local state = PROTOCOL .. " 0 " .. fence .. " " .. expires .. " 0"
    local held, short = holder .. " " .. ends_ms, string.sub(who, 1, SHORT)
    local fields = { "state", state, "holder", held, "claim", claim, "who", short }
    if #who > SHORT then
      fields[9], fields[10] = "label", string.sub(who, SHORT + 1)
    end
    if line then
      fields[#fields + 1], fields[#fields + 2] = "line", line
    end
    call("HSET", key, unpack(fields))
    if moved then
      call("PEXPIREAT", key, expires)
    end
  end
end
