"""Read both balances and move the money, for strategies that hold a lock meanwhile.

Redis does not know about locks, so the write checks two things itself, in one script that nothing can interrupt:
that this operation was not applied before, and that no younger hold has written to either account since.
"""

from __future__ import annotations

from dataclasses import dataclass

import redis

from .accounts import FIELD, account_key, check_funds, parse_balance

MARKER_SECONDS = 3600
APPLIED = 1
REPEATED = 0
OUTDATED = -1

# KEYS  1 sender  2 recipient  3 marker of the operation
# ARGV  1 amount in cents  2 lifetime of the marker in seconds  3, 4 fencing tokens (0: none)
# reply 1 moved, 0 this operation was applied before, -1 a younger hold has written to an account
MOVE_MONEY = """
local sender, recipient, marker = KEYS[1], KEYS[2], KEYS[3]
local cents, marker_seconds = ARGV[1], ARGV[2]
local fences = {[sender] = tonumber(ARGV[3]), [recipient] = tonumber(ARGV[4])}

if redis.call("EXISTS", marker) == 1 then
  return 0
end
for account, fence in pairs(fences) do
  if fence > 0 and tonumber(redis.call("HGET", account, "fence") or "0") > fence then
    return -1
  end
end
for account, fence in pairs(fences) do
  if fence > 0 then
    redis.call("HSET", account, "fence", string.format("%.0f", fence))
  end
end
redis.call("HINCRBY", sender, "money", "-" .. cents)
redis.call("HINCRBY", recipient, "money", cents)
redis.call("SET", marker, "1", "EX", marker_seconds)
return 1
"""


@dataclass(frozen=True)
class Order:
    """One transfer: who pays whom how many cents, under which operation id."""

    sender: str
    recipient: str
    cents: int
    operation_id: str
    marker_seconds: int = MARKER_SECONDS

    @property
    def marker(self) -> str:
        """The Redis key that says that this operation was applied."""
        return f"operation:{self.operation_id}"


def is_still_due(conn: redis.Redis, order: Order) -> bool:
    """Read both accounts in one round trip; False when this operation has moved its money already.

    Raises:
        UnknownAccount: One of the accounts does not exist.
        InsufficientFunds: The sender's balance is lower than the amount.
    """
    # No MULTI: whoever calls this holds both accounts, so the three answers belong together.
    with conn.pipeline(transaction=False) as pipe:
        pipe.exists(order.marker)
        pipe.hget(account_key(order.sender), FIELD)
        pipe.hget(account_key(order.recipient), FIELD)
        applied, sender, recipient = pipe.execute()
    if applied:
        return False
    parse_balance(order.recipient, recipient)
    check_funds(order.sender, parse_balance(order.sender, sender), order.cents)
    return True


def move_money(conn: redis.Redis, order: Order, fences: tuple[int, int] = (0, 0)) -> int:
    """Apply the transfer unless it was applied before.

    Args:
        conn: Client of the bank's server.
        order: What to move.
        fences: Fencing tokens of the holds on sender and recipient; 0 for a lock that has none.

    Returns:
        ``APPLIED``, ``REPEATED``, or ``OUTDATED`` when a younger hold has written meanwhile.
    """
    keys = [account_key(order.sender), account_key(order.recipient), order.marker]
    script = conn.register_script(MOVE_MONEY)
    return int(script(keys=keys, args=[order.cents, order.marker_seconds, *fences]))
