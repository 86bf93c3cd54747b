"""The whole transfer as one Lua script: nothing can come between its steps, so it needs no lock."""

from __future__ import annotations

import redis

from .accounts import InsufficientFunds, UnknownAccount, account_key
from .payment import Order, Receipt

# KEYS  1 sender  2 recipient  3 marker of the operation
# ARGV  1 amount in cents  2 lifetime of the marker in seconds
# reply {"moved"}, {"repeated"}, {"unknown", 1 or 2}, or {"short", the sender's balance}
TRANSFER = """\
local sender, recipient, marker = KEYS[1], KEYS[2], KEYS[3]
local cents, marker_seconds = ARGV[1], ARGV[2]

if redis.call("EXISTS", marker) == 1 then
  return {"repeated"}
end
local balances = {}
for index, account in ipairs({sender, recipient}) do
  balances[index] = redis.call("HGET", account, "money")
  if not balances[index] then
    return {"unknown", index}
  end
end
if tonumber(balances[1]) < tonumber(cents) then
  return {"short", balances[1]}
end
redis.call("HINCRBY", sender, "money", "-" .. cents)
redis.call("HINCRBY", recipient, "money", cents)
redis.call("SET", marker, "1", "EX", marker_seconds)
return {"moved"}
"""


def one_script(conn: redis.Redis, order: Order) -> Receipt:
    """Let the server check and move in one step, and say which it was."""
    order.work()
    outcome, *details = run_transfer(conn, order)
    if outcome == b"unknown":
        missing = (order.sender, order.recipient)[int(details[0]) - 1]
        raise UnknownAccount(f"There is no account {missing!r}.")
    if outcome == b"short":
        raise InsufficientFunds.of(order.sender, int(details[0]), order.cents)
    return Receipt(order.operation_id, 0, moved=outcome == b"moved")


def run_transfer(conn: redis.Redis, order: Order) -> list[bytes]:
    """Send the script; one round trip."""
    keys = [account_key(order.sender), account_key(order.recipient), order.marker]
    reply = conn.register_script(TRANSFER)(keys=keys, args=[order.cents, order.marker_seconds])
    return [part.encode() if isinstance(part, str) else part for part in reply]
