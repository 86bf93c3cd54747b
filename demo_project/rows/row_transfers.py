"""Ways to move money between two rows: by the database's locks, by locks on Redis, and fenced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import redis
from django.db import OperationalError
from django.db.transaction import atomic

from demo_project.bank.accounts import TooMuchContention, UnknownAccount, check_funds
from demo_project.bank.payment import Order, Receipt
from redis_locks import Hold, redis_lock
from redis_locks.rows import lock_rows

from .books import accounts, operations

if TYPE_CHECKING:
    from redis_locks.fencing import FencedQuerySet

    from .models import Account

# PostgreSQL's codes for a lock that is not to be had, a deadlock, and a transaction to be repeated.
_CONTENTION = {"55P03", "40P01", "40001"}


def database_locks(_conn: redis.Redis, order: Order) -> Receipt:
    """Let the database lock both rows until COMMIT; SQLite locks itself, from BEGIN IMMEDIATE."""
    with contention_of(order), atomic():
        return move(order, both(order).select_for_update())


def row_locks(_conn: redis.Redis, order: Order) -> Receipt:
    """Lock both rows on Redis until COMMIT, as SELECT FOR UPDATE would, and verify just before."""
    with contention_of(order), atomic(), lock_rows(both(order), wait=order.wait_seconds) as rows:
        return move(order, rows)


def fenced_writes(_conn: redis.Redis, order: Order) -> Receipt:
    """Hold locks on Redis around the transaction; the rows refuse a holder that has lost them."""
    locks = redis_lock(*lock_names(order), wait=order.wait_seconds)
    with contention_of(order), locks as hold, atomic():
        # Before they are read: from here on, no older hold can write them.
        both(order).fenced(hold).update()
        return move(order, both(order), hold)


def move(order: Order, rows: Iterable[Account], hold: Hold | None = None) -> Receipt:
    """Check and move in the open transaction, and note the operation, so that it is done once."""
    found = {row.name: row for row in rows}
    for name in (order.sender, order.recipient):
        if name not in found:
            raise UnknownAccount(f"There is no account {name!r}.")
    if operations().filter(pk=order.operation_id).exists():
        return Receipt(order.operation_id, 0, moved=False)
    sender, recipient = found[order.sender], found[order.recipient]
    check_funds(order.sender, sender.cents, order.cents)
    order.work()
    sender.cents -= order.cents
    recipient.cents += order.cents
    for row in (sender, recipient):
        row.save(hold=hold, update_fields=["cents"])
    operations().create(operation_id=order.operation_id, sender=sender)
    return Receipt(order.operation_id, 0, moved=True)


def both(order: Order) -> FencedQuerySet[Account]:
    """The rows of sender and recipient, for everybody in the same order."""
    return accounts().filter(name__in=(order.sender, order.recipient)).order_by("name")


def lock_names(order: Order) -> tuple[str, str]:
    """The names of both accounts' locks, where not rows are locked."""
    return f"bank_rows.account:{order.sender}", f"bank_rows.account:{order.recipient}"


@contextmanager
def contention_of(order: Order) -> Iterator[None]:
    """Report that a lock, of the database or on Redis, was not available, as the bank does."""
    try:
        yield
    except OperationalError as error:
        if not _is_contention(error):
            raise
        raise TooMuchContention(
            f"Accounts {order.sender!r} and {order.recipient!r} stayed locked. {error}"
        ) from error


def _is_contention(error: OperationalError) -> bool:
    # Our own errors have a code themselves, others on the driver's error that they wrap.
    codes = {getattr(each, "sqlstate", None) for each in (error, error.__cause__)}
    busy = getattr(error.__cause__, "sqlite_errorname", "")
    return bool(codes & _CONTENTION) or busy.startswith("SQLITE_BUSY")
