"""Five ways to move money between two accounts, from unprotected to locked."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import redis

from redis_locks import LockTimeout, redis_lock

from .accounts import (
    FIELD,
    TooMuchContention,
    account_key,
    check_funds,
    check_request,
    parse_balance,
)
from .book_locks import BookHold, lua_lock, setnx_lock
from .writing import (
    APPLIED,
    MARKER_SECONDS,
    REPEATED,
    Order,
    is_due,
    is_still_due,
    move_money,
    questions,
    queue_move,
)

MAX_ATTEMPTS = 200
WAIT_SECONDS = 10.0
_FIRST_PAUSE = 0.0005
# About as long as a few transfers take: longer pauses starve those who pause, shorter ones collide again.
_LONGEST_PAUSE = 0.002


@dataclass(frozen=True)
class Receipt:
    """What became of a transfer.

    Attributes:
        operation_id: Hand it in again to repeat the call safely after an error whose outcome is unknown.
        retries: How often the strategy had to start again or ask again before it succeeded.
        moved: False when an earlier call with this operation id had moved the money already.
    """

    operation_id: str
    retries: int
    moved: bool


Strategy = Callable[[redis.Redis, Order], Receipt]


def transfer_funds(
    conn: redis.Redis,
    sender: str,
    recipient: str,
    cents: int,
    *,
    strategy: str = "redis_lock",
    operation_id: str | None = None,
    marker_seconds: int = MARKER_SECONDS,
) -> Receipt:
    """Move ``cents`` from one account to the other, by one of ``STRATEGIES``.

    Args:
        conn: Client of the bank's server.
        sender: Account id.
        recipient: Account id.
        cents: Amount, at least 1.
        strategy: A key of ``STRATEGIES``.
        operation_id: Names this transfer; a second call with the same one moves nothing. None: a new one.
        marker_seconds: How long the bank remembers the operation id.

    Raises:
        InvalidTransfer: Amount or accounts make no sense.
        UnknownAccount: One of the accounts does not exist.
        InsufficientFunds: The sender's balance is lower than the amount.
        TooMuchContention: Others kept the accounts changing or locked for too long; nothing was moved.
        LockLost: The lease of a lock ended before the write, so nothing was moved.
        ValueError: There is no such strategy.
    """
    check_request(sender, recipient, cents)
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}.")
    order = Order(sender, recipient, cents, operation_id or uuid.uuid4().hex, marker_seconds)
    return STRATEGIES[strategy](conn, order)


def optimistic(conn: redis.Redis, order: Order) -> Receipt:
    """WATCH both accounts, check, and write only if nobody else wrote meanwhile; start again otherwise."""
    sender, recipient = account_key(order.sender), account_key(order.recipient)
    with conn.pipeline(transaction=True) as pipe:
        for attempt in range(MAX_ATTEMPTS):
            try:
                pipe.watch(sender, recipient, order.marker)  # type: ignore[no-untyped-call]
                # WatchError also reports a lost connection, so the write may have happened: the marker knows.
                if pipe.exists(order.marker):
                    return Receipt(order.operation_id, attempt, moved=False)
                balance = parse_balance(order.sender, pipe.hget(sender, FIELD))
                parse_balance(order.recipient, pipe.hget(recipient, FIELD))
                check_funds(order.sender, balance, order.cents)
                pipe.multi()
                queue_move(pipe, order)
                pipe.execute()
            except redis.WatchError:
                _pause(attempt)
            else:
                return Receipt(order.operation_id, attempt, moved=True)
    raise TooMuchContention(
        f"Accounts {order.sender!r} and {order.recipient!r} kept changing: gave up after {MAX_ATTEMPTS} attempts."
    )


def explicit_lock(conn: redis.Redis, order: Order) -> Receipt:
    """Hold the locks of both accounts, acquired in one step: no two transfers can wait in a circle."""
    accounts = (account_key(order.sender), account_key(order.recipient))
    try:
        with redis_lock(*accounts, wait=WAIT_SECONDS, read=questions(order)) as hold:
            if not is_due(order, hold.read):
                return Receipt(order.operation_id, 0, moved=False)
            with conn.pipeline() as pipe:
                queue_move(pipe, order)
                hold.commit(pipe)
    except LockTimeout as error:
        raise _contended(order) from error
    return Receipt(order.operation_id, 0, moved=True)


def unprotected(conn: redis.Redis, order: Order) -> Receipt:
    """The warning example: read, then write, as if nobody else were there. It loses and invents money."""
    sender, recipient = account_key(order.sender), account_key(order.recipient)
    sender_cents = parse_balance(order.sender, conn.hget(sender, FIELD))
    recipient_cents = parse_balance(order.recipient, conn.hget(recipient, FIELD))
    check_funds(order.sender, sender_cents, order.cents)
    conn.hset(sender, FIELD, sender_cents - order.cents)
    conn.hset(recipient, FIELD, recipient_cents + order.cents)
    return Receipt(order.operation_id, 0, moved=True)


BookLock = Callable[..., AbstractContextManager[BookHold]]


def book_lock(lock: BookLock, conn: redis.Redis, order: Order) -> Receipt:
    """The same as ``explicit_lock`` with a lock of the book, whose waiters ask every millisecond."""
    first, second = (account_key(account) for account in sorted((order.sender, order.recipient)))
    try:
        with (
            lock(conn, first, WAIT_SECONDS) as first_hold,
            lock(conn, second, WAIT_SECONDS) as second_hold,
        ):
            outcome = move_money(conn, order) if is_still_due(conn, order) else REPEATED
    except LockTimeout as error:
        raise _contended(order) from error
    retries = first_hold.tries + second_hold.tries - 2
    return Receipt(order.operation_id, retries, moved=outcome == APPLIED)


def _pause(attempt: int) -> None:
    """Wait longer after each failure and never in step with the others."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt, 10))
    time.sleep(random.uniform(0, longest))  # noqa: S311


def _contended(order: Order) -> TooMuchContention:
    return TooMuchContention(
        f"Accounts {order.sender!r} and {order.recipient!r} stayed locked for {WAIT_SECONDS:.0f} s."
    )


STRATEGIES: dict[str, Strategy] = {
    "unprotected": unprotected,
    "optimistic": optimistic,
    "book_setnx": partial(book_lock, setnx_lock),
    "book_lua": partial(book_lock, lua_lock),
    "redis_lock": explicit_lock,
}

LABELS = {
    "unprotected": "No locking (unsafe)",
    "optimistic": "Optimistic (WATCH)",
    "book_setnx": "Book: SETNX lock",
    "book_lua": "Book: Lua lock",
    "redis_lock": "redis_lock",
}
