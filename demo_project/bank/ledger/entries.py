"""Three ways to write a transfer into a ledger beside its money; two know its operation id."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import redis

from demo_project.bank.accounts import FIELD, account_key, check_funds, parse_balance
from demo_project.bank.payment import Order, is_due, moves, questions
from redis_locks import redis_lock

LEASE = 1.0


@dataclass(frozen=True)
class Entry:
    """A line of the ledger; `token` is the fencing token of its hold, or None without a lock."""

    operation: str
    sender: str
    recipient: str
    cents: int
    token: int | None


def book_once(_conn: redis.Redis, ledger: str, order: Order) -> bool:
    """Move the money and write the entry in one step; False if the ledger has the operation."""
    accounts = (account_key(order.sender), account_key(order.recipient))
    with redis_lock(*accounts, wait=order.wait_seconds, lease=LEASE, read=questions(order)) as hold:
        if not is_due(order, hold.read):
            return False
        entry = entry_of(order, hold.fencing_token)
        hold.commit([*moves(order), ("RPUSH", ledger, entry)])
    return True


def book_by_transaction(conn: redis.Redis, ledger: str, order: Order) -> bool:
    """Do the same with redis-py's transaction().

    Both transaction() and its caller try again when the connection breaks.
    """
    sender, recipient = account_key(order.sender), account_key(order.recipient)

    def move(pipe: Any) -> None:
        check_funds(
            order.sender, parse_balance(order.sender, pipe.hget(sender, FIELD)), order.cents
        )
        pipe.multi()
        pipe.hincrby(sender, FIELD, -order.cents)
        pipe.hincrby(recipient, FIELD, order.cents)
        pipe.rpush(ledger, entry_of(order, None))

    conn.transaction(move, sender, recipient)
    return True


def book_by_marked_transaction(conn: redis.Redis, ledger: str, order: Order) -> bool:
    """Do it with transaction(), which also watches, reads and writes the operation's marker.

    It returns what `book_once` returns.
    """
    sender, recipient = account_key(order.sender), account_key(order.recipient)

    def move(pipe: Any) -> bool:
        due = is_due(order, [pipe.execute_command(*question) for question in questions(order)])
        pipe.multi()
        if due:
            for command in moves(order):
                pipe.execute_command(*command)
            pipe.rpush(ledger, entry_of(order, None))
        return due

    watched = (order.marker, sender, recipient)
    # redis-py's types know no function that returns something, which `value_from_callable` is for.
    return bool(conn.transaction(move, *watched, value_from_callable=True))  # type: ignore[arg-type]


def entry_of(order: Order, token: int | None) -> str:
    """The entry as the ledger keeps it."""
    entry = Entry(order.operation_id, order.sender, order.recipient, order.cents, token)
    return json.dumps(asdict(entry))


@dataclass(frozen=True)
class Way:
    """One way to write transfers: its label on the page, and what does it."""

    label: str
    book: Callable[[redis.Redis, str, Order], bool]


WAYS = {
    "redis_lock": Way("redis_lock and operation ids", book_once),
    "marked": Way("transaction() and operation ids", book_by_marked_transaction),
    "transaction": Way("transaction() without operation ids", book_by_transaction),
}
