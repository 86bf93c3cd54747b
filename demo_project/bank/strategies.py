"""The table of strategies: every way to move money, in a sentence, with the code that the page shows.

A new strategy is one entry of ``STRATEGIES``; commands, forms, the comparison and its page take it from here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

import redis

from demo_project.rows.books import ROWS, unavailable
from demo_project.rows.moving import database_locks, fenced_writes, move, row_locks
from redis_locks.benchmark import book_locks

from .accounts import REDIS_BOOKS, Books, check_request
from .scripted import TRANSFER, one_script, run_transfer
from .transfers import (
    book_lock,
    explicit_lock,
    optimistic_transaction,
    unprotected,
    watch_by_hand,
)
from .writing import MARKER_SECONDS, Order, Receipt


class Kind(Enum):
    """What a strategy is in the comparison for."""

    WARNING = "warning"
    OPTIMISTIC = "optimistic"
    LOCK = "lock"
    LIMIT = "limit"
    ROWS = "rows"


def _available() -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to move money.

    Attributes:
        name: Its key in commands and records; at most 20 characters.
        label: Its name on the page.
        sentence: What it does, in one sentence.
        kind: What it is compared for.
        transfer: Moves the money of one order.
        shown: The code to read on the page: functions, whose source is shown, and texts of Lua.
        books: Where its accounts are kept.
        unavailable: Says why it cannot run here, or "" if it can.
    """

    name: str
    label: str
    sentence: str
    kind: Kind
    transfer: Callable[[redis.Redis, Order], Receipt]
    shown: tuple[Callable[..., object] | str, ...]
    books: Books = REDIS_BOOKS
    unavailable: Callable[[], str] = _available

    @property
    def is_safe(self) -> bool:
        """Whether it promises to conserve the money."""
        return self.kind is not Kind.WARNING


_TABLE = (
    Strategy(
        name="unprotected",
        label="No locking (unsafe)",
        sentence="Reads both balances and writes new ones as if nobody else were there: of two transfers "
        "at once, one overwrites the other, and money is lost or made up.",
        kind=Kind.WARNING,
        transfer=unprotected,
        shown=(unprotected,),
    ),
    Strategy(
        name="optimistic",
        label="Optimistic",
        sentence="Says what to read and what to write; the library watches the accounts, starts again if anybody "
        "wrote to them meanwhile, and applies the transfer once even if the server's answer is lost.",
        kind=Kind.OPTIMISTIC,
        transfer=optimistic_transaction,
        shown=(optimistic_transaction,),
    ),
    Strategy(
        name="watch",
        label="WATCH by hand",
        sentence="The same as the book writes it, with WATCH, MULTI and EXEC: as many round trips, but less work in "
        "Python than the library's, which makes it the fair measure of what optimistic transactions can do.",
        kind=Kind.OPTIMISTIC,
        transfer=watch_by_hand,
        shown=(watch_by_hand,),
    ),
    Strategy(
        name="book_setnx",
        label="Book: SETNX lock",
        sentence="Acquires a lock for each account with SETNX and EXPIRE, the first lock of “Redis in Action”; "
        "whoever does not get it asks again every millisecond.",
        kind=Kind.LOCK,
        transfer=partial(book_lock, book_locks.setnx_lock),
        shown=(book_lock, book_locks.try_setnx, book_locks.release_setnx),
    ),
    Strategy(
        name="book_lua",
        label="Book: Lua lock",
        sentence="The second lock of the book: one script acquires and one releases, which saves round trips; "
        "whoever does not get it still asks again every millisecond.",
        kind=Kind.LOCK,
        transfer=partial(book_lock, book_locks.lua_lock),
        shown=(book_lock, book_locks.ACQUIRE, book_locks.RELEASE),
    ),
    Strategy(
        name="redis_lock",
        label="redis_lock",
        sentence="Acquires the locks of both accounts in one step, waits in a queue until they are handed over, "
        "reads with the acquire, and writes with the release.",
        kind=Kind.LOCK,
        transfer=explicit_lock,
        shown=(explicit_lock,),
    ),
    Strategy(
        name="script",
        label="One Lua script",
        sentence="Checks and moves inside the server, where nothing comes between, in one round trip: the limit, "
        "for work that needs nothing but data of one server.",
        kind=Kind.LIMIT,
        transfer=one_script,
        shown=(one_script, run_transfer, TRANSFER),
    ),
    Strategy(
        name="rows_db",
        label="Rows: database locks",
        sentence="Accounts are rows: SELECT FOR UPDATE locks both until COMMIT; SQLite, which has no row locks, "
        "locks the whole database with BEGIN IMMEDIATE.",
        kind=Kind.ROWS,
        transfer=database_locks,
        shown=(database_locks, move),
        books=ROWS,
        unavailable=unavailable,
    ),
    Strategy(
        name="rows_redis",
        label="Rows: lock_rows",
        sentence="Accounts are rows: lock_rows locks them on Redis as SELECT FOR UPDATE would, on any database, verifies "
        "that just before COMMIT, and releases them after it.",
        kind=Kind.ROWS,
        transfer=row_locks,
        shown=(row_locks, move),
        books=ROWS,
        unavailable=unavailable,
    ),
    Strategy(
        name="rows_fenced",
        label="Rows: fenced writes",
        sentence="Accounts are rows that keep the fencing token of the last hold: locks on Redis stand around the "
        "transaction, and a holder that lost them unnoticed cannot write any more.",
        kind=Kind.ROWS,
        transfer=fenced_writes,
        shown=(fenced_writes, move),
        books=ROWS,
        unavailable=unavailable,
    ),
)

ROWS_NOTE = (
    "On SQLite, each transaction over rows begins with BEGIN IMMEDIATE, so one runs at a time in the whole "
    "database, whatever it locks on Redis besides."
)
"""What to know of all strategies over rows, wherever their figures are shown."""

STRATEGIES = {strategy.name: strategy for strategy in _TABLE}


def label_of(name: str) -> str:
    """A strategy's label; the name itself if the strategy is no longer in the table."""
    return STRATEGIES[name].label if name in STRATEGIES else name


def available() -> list[str]:
    """The names of the strategies that can run here."""
    return [name for name, strategy in STRATEGIES.items() if not strategy.unavailable()]


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
    return STRATEGIES[strategy].transfer(conn, order)
