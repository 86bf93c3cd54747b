"""Ways to move money between two accounts of the bank on Redis, from unprotected to locked."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import redis
import redis.lock

from demo_project.benchmark.book_locks import BookHold
from redis_locks import LockTimeout, optimistic, redis_lock
from redis_locks import TooMuchContention as KeptChanging

from .accounts import (
    FIELD,
    TooMuchContention,
    account_key,
    check_funds,
    parse_balance,
)
from .payment import (
    APPLIED,
    REPEATED,
    Order,
    Receipt,
    is_due,
    is_still_due,
    move_money,
    moves,
    questions,
)

if TYPE_CHECKING:
    from redis_locks.optimistic.pipelines import WatchingPipeline

MAX_ATTEMPTS = 200
LEASE_SECONDS = 10.0
_FIRST_PAUSE = 0.0005
# About as long as a few transfers take: longer pauses starve those who pause, shorter ones collide
# again.
_LONGEST_PAUSE = 0.002


def optimistic_transaction(conn: redis.Redis, order: Order) -> Receipt:
    """Say what to read and write; the library watches, starts again, and applies it once."""
    sender, recipient = account_key(order.sender), account_key(order.recipient)
    this_call, attempts = uuid.uuid4().hex, 0

    def move(pipe: WatchingPipeline) -> str:
        nonlocal attempts
        attempts += 1
        sender_cents, recipient_cents = pipe.read
        parse_balance(order.recipient, recipient_cents)
        check_funds(order.sender, parse_balance(order.sender, sender_cents), order.cents)
        order.work()
        pipe.multi()
        pipe.hincrby(sender, FIELD, -order.cents)
        pipe.hincrby(recipient, FIELD, order.cents)
        return this_call

    try:
        moved_by = optimistic.run(
            move,
            sender,
            recipient,
            read=[("HGET", sender, FIELD), ("HGET", recipient, FIELD)],
            operation_id=order.operation_id,
            remember=order.marker_seconds,
            attempts=MAX_ATTEMPTS,
            using=conn,
        )
    except KeptChanging as error:
        raise TooMuchContention(str(error)) from error
    return Receipt(order.operation_id, max(0, attempts - 1), moved=moved_by == this_call)


def watch_by_hand(conn: redis.Redis, order: Order) -> Receipt:
    """WATCH both accounts, check, and write only if nobody else wrote meanwhile, or start again."""
    sender, recipient = account_key(order.sender), account_key(order.recipient)
    with conn.pipeline(transaction=True) as pipe:
        for attempt in range(MAX_ATTEMPTS):
            try:
                pipe.watch(sender, recipient, order.marker)  # type: ignore[no-untyped-call]
                # WatchError also reports a lost connection, so the write may have happened: the
                # marker knows.
                if pipe.exists(order.marker):
                    return Receipt(order.operation_id, attempt, moved=False)
                balance = parse_balance(order.sender, pipe.hget(sender, FIELD))
                parse_balance(order.recipient, pipe.hget(recipient, FIELD))
                check_funds(order.sender, balance, order.cents)
                order.work()
                pipe.multi()
                for command in moves(order):
                    pipe.execute_command(*command)  # type: ignore[no-untyped-call]
                pipe.execute()
            except redis.WatchError:
                _pause(attempt)
            else:
                return Receipt(order.operation_id, attempt, moved=True)
    raise _kept_changing(order)


def watch_packed(conn: redis.Redis, order: Order) -> Receipt:
    """The same in two packets on redis-py's pool: WATCH and the reads, then MULTI to EXEC."""
    watched = ("WATCH", account_key(order.sender), account_key(order.recipient), order.marker)
    link = conn.connection_pool.get_connection()
    try:
        for attempt in range(MAX_ATTEMPTS):
            _, *answers = exchange(link, [watched, *questions(order)])
            due = False
            try:
                due = is_due(order, answers)
            finally:
                if not due:
                    exchange(link, [("UNWATCH",)])
            if not due:
                return Receipt(order.operation_id, attempt, moved=False)
            *_, done = exchange(link, [("MULTI",), *moves(order), ("EXEC",)])
            if done is not None:
                return Receipt(order.operation_id, attempt, moved=True)
            _pause(attempt)
    finally:
        conn.connection_pool.release(link)
    raise _kept_changing(order)


def exchange(link: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Send the commands in one packet and return all replies."""
    link.send_packed_command(link.pack_commands(commands))
    try:
        return [link.read_response() for _ in commands]
    except redis.RedisError:
        # What the server still answers must not reach the next user of the connection.
        link.disconnect()
        raise


def plain_lock(conn: redis.Redis, order: Order) -> Receipt:
    """Hold the locks of both accounts, and read and write with a redis-py client meanwhile."""
    accounts = (account_key(order.sender), account_key(order.recipient))
    try:
        with redis_lock(*accounts, wait=order.wait_seconds):
            outcome = move_money(conn, order) if is_still_due(conn, order) else REPEATED
    except LockTimeout as error:
        raise _contended(order) from error
    return Receipt(order.operation_id, 0, moved=outcome == APPLIED)


def explicit_lock(_conn: redis.Redis, order: Order) -> Receipt:
    """Hold both accounts' locks; the reads travel with the acquire, the writes with the release."""
    accounts = (account_key(order.sender), account_key(order.recipient))
    try:
        with redis_lock(*accounts, wait=order.wait_seconds, read=questions(order)) as hold:
            if not is_due(order, hold.read):
                return Receipt(order.operation_id, 0, moved=False)
            hold.commit(moves(order))
    except LockTimeout as error:
        raise _contended(order) from error
    return Receipt(order.operation_id, 0, moved=True)


def unprotected(conn: redis.Redis, order: Order) -> Receipt:
    """The warning example: read, then write, as if nobody else were there.

    It loses and invents money.
    """
    sender, recipient = account_key(order.sender), account_key(order.recipient)
    sender_cents = parse_balance(order.sender, conn.hget(sender, FIELD))
    recipient_cents = parse_balance(order.recipient, conn.hget(recipient, FIELD))
    check_funds(order.sender, sender_cents, order.cents)
    order.work()
    conn.hset(sender, FIELD, sender_cents - order.cents)
    conn.hset(recipient, FIELD, recipient_cents + order.cents)
    return Receipt(order.operation_id, 0, moved=True)


BookLock = Callable[..., AbstractContextManager[BookHold]]


def book_lock(lock: BookLock, conn: redis.Redis, order: Order) -> Receipt:
    """The same as ``plain_lock`` with a lock of the book, whose waiters ask every millisecond."""
    first, second = (account_key(account) for account in sorted((order.sender, order.recipient)))
    try:
        with (
            lock(conn, first, order.wait_seconds) as first_hold,
            lock(conn, second, order.wait_seconds) as second_hold,
        ):
            outcome = move_money(conn, order) if is_still_due(conn, order) else REPEATED
    except LockTimeout as error:
        raise _contended(order) from error
    retries = first_hold.tries + second_hold.tries - 2
    return Receipt(order.operation_id, retries, moved=outcome == APPLIED)


def redis_py_lock(conn: redis.Redis, order: Order) -> Receipt:
    """The same with redis-py's own lock, whose waiters ask every 100 ms by default."""
    first, second = (f"lock:{account_key(one)}" for one in sorted((order.sender, order.recipient)))
    locks = [
        CountingLock(conn, name, timeout=LEASE_SECONDS, blocking_timeout=order.wait_seconds)
        for name in (first, second)
    ]
    try:
        with locks[0], locks[1]:
            outcome = move_money(conn, order) if is_still_due(conn, order) else REPEATED
    except redis.exceptions.LockError as error:
        raise _contended(order) from error
    return Receipt(
        order.operation_id, sum(lock.tries - 1 for lock in locks), moved=outcome == APPLIED
    )


class CountingLock(redis.lock.Lock):
    """redis-py's lock, and how often it asked."""

    tries = 0

    def do_acquire(self, token: str) -> bool:
        """Ask once."""
        self.tries += 1
        return super().do_acquire(token)


def _kept_changing(order: Order) -> TooMuchContention:
    return TooMuchContention(
        f"Accounts {order.sender!r} and {order.recipient!r} kept changing: gave up after "
        f"{MAX_ATTEMPTS} attempts."
    )


def _pause(attempt: int) -> None:
    """Wait longer after each failure and never in step with the others."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt, 10))
    time.sleep(random.uniform(0, longest))  # noqa: S311


def _contended(order: Order) -> TooMuchContention:
    return TooMuchContention(
        f"Accounts {order.sender!r} and {order.recipient!r} stayed locked for "
        f"{order.wait_seconds:.0f} s."
    )
