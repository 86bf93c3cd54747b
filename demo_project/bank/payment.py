"""One payment: the order, the commands that read and move the money, and the receipt.

A lock that Redis does not know of cannot stop a write. Under such a lock the write is one script,
which also checks whether this operation was applied before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

from .accounts import FIELD, account_key, check_funds, parse_balance

MARKER_SECONDS = 3600
WAIT_SECONDS = 10.0
_MOST_BEFORE_US = 20
APPLIED = 1
REPEATED = 0

# KEYS  1 sender  2 recipient  3 marker of the operation
# ARGV  1 amount in cents  2 lifetime of the marker in seconds
# reply 1 moved, 0 this operation was applied before
MOVE_MONEY = """
local sender, recipient, marker = KEYS[1], KEYS[2], KEYS[3]
local cents, marker_seconds = ARGV[1], ARGV[2]

if redis.call("EXISTS", marker) == 1 then
  return 0
end
redis.call("HINCRBY", sender, "money", "-" .. cents)
redis.call("HINCRBY", recipient, "money", cents)
redis.call("SET", marker, "1", "EX", marker_seconds)
return 1
"""


@dataclass(frozen=True)
class Order:
    """One transfer: who pays whom how many cents, under which operation id.

    ``work_seconds`` is what an application would need between reading and writing.
    """

    sender: str
    recipient: str
    cents: int
    operation_id: str
    marker_seconds: int = MARKER_SECONDS
    work_seconds: float = 0.0

    def work(self) -> None:
        """Do what the application does between reading and writing: let time pass."""
        if self.work_seconds:
            time.sleep(self.work_seconds)

    @property
    def wait_seconds(self) -> float:
        """How long to wait for the accounts' locks: longer if those before us work for long."""
        return WAIT_SECONDS + _MOST_BEFORE_US * self.work_seconds

    @property
    def marker(self) -> str:
        """The Redis key that says that this operation was applied."""
        return f"operation:{self.operation_id}"


@dataclass(frozen=True)
class Receipt:
    """What became of a transfer.

    Attributes:
        operation_id: Hand it in again to repeat the call safely after an error whose outcome is
            unknown.
        retries: How often the strategy had to start again or ask again before it succeeded.
        moved: False when an earlier call with this operation id had moved the money already.
    """

    operation_id: str
    retries: int
    moved: bool


def questions(order: Order) -> list[tuple[str, ...]]:
    """Return the commands whose answers `is_due` wants."""
    return [
        ("EXISTS", order.marker),
        ("HGET", account_key(order.sender), FIELD),
        ("HGET", account_key(order.recipient), FIELD),
    ]


def is_due(order: Order, answers: Sequence[Any]) -> bool:
    """Check both accounts and do the order's work; False if this operation has moved its money.

    Raises:
        UnknownAccount: One of the accounts does not exist.
        InsufficientFunds: The sender's balance is lower than the amount.
    """
    applied, sender, recipient = answers
    if applied:
        return False
    parse_balance(order.recipient, recipient)
    check_funds(order.sender, parse_balance(order.sender, sender), order.cents)
    order.work()
    return True


def is_still_due(conn: redis.Redis, order: Order) -> bool:
    """Read both accounts in one round trip; see `is_due`."""
    # No MULTI: whoever calls this holds both accounts, so the three answers belong together.
    with conn.pipeline(transaction=False) as pipe:
        for question in questions(order):
            pipe.execute_command(*question)  # type: ignore[no-untyped-call]
        return is_due(order, pipe.execute())


def moves(order: Order) -> list[tuple[str | int, ...]]:
    """Return the commands of the transfer: the money, and the marker that says it was moved."""
    return [
        ("HINCRBY", account_key(order.sender), FIELD, -order.cents),
        ("HINCRBY", account_key(order.recipient), FIELD, order.cents),
        ("PSETEX", order.marker, order.marker_seconds * 1000, 1),
    ]


def move_money(conn: redis.Redis, order: Order) -> int:
    """Apply the transfer unless it was applied before.

    Args:
        conn: Client of the bank's server.
        order: What to move.

    Returns:
        ``APPLIED`` or ``REPEATED``.
    """
    keys = [account_key(order.sender), account_key(order.recipient), order.marker]
    script = conn.register_script(MOVE_MONEY)
    return int(script(keys=keys, args=[order.cents, order.marker_seconds]))
