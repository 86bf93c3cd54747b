-- Of release and commit: one waiter stands first for all the locks, wants them exclusively and no others.

if first and same then
  local claim = call("HGET", CLAIMS .. names[1], first) or ""
  local since, wait, wanted
  since, lease, listener, wait, wanted, who = string.match(claim, "^0 (%d+) exclusive (%d+) (%S+) (%d+) (%d+) (.*)$")
  if since and tonumber(wanted) == size and (wait == "0" or since + wait > tonumber(now)) then
    heir, tail = first, ""
  end
end
