"""The table of strategies: every way to move money, in a sentence, with the code the page shows.

A new strategy is one entry of ``STRATEGIES``; commands, forms, the comparison and its page take it
from here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import redis

from demo_project.benchmark import book_locks
from demo_project.rows.books import ROWS, unavailable
from demo_project.rows.row_transfers import database_locks, fenced_writes, move, row_locks

from .accounts import REDIS_BOOKS, Books, check_request
from .lua_transfer import TRANSFER, one_script, run_transfer
from .payment import MARKER_SECONDS, Order, Receipt, moves, questions
from .persistence import no_own_server
from .transfers import (
    book_lock,
    exchange,
    explicit_lock,
    optimistic_transaction,
    plain_lock,
    redis_py_lock,
    unprotected,
    watch_by_hand,
    watch_packed,
)


class Kind(Enum):
    """What a strategy is in the comparison for."""

    WARNING = "warning"
    OPTIMISTIC = "optimistic"
    LOCK = "lock"
    LIMIT = "limit"
    ROWS = "rows"


class Durability(Enum):
    """What survives a crash of the machine.

    Only strategies of the same durability are ranked with each other.
    """

    MEMORY = "Redis, in memory"
    AOF = "Redis, AOF always"
    ROWS = "Database rows"


def _available() -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to move money.

    Attributes:
        name: Its key in commands and records; at most 20 characters.
        label: Its name on the page.
        text: What it does, in a sentence or two.
        kind: What it is compared for.
        round_trips: How often a transfer without a conflict goes to the Redis server; None if it
            depends.
        transfer: Moves the money of one order.
        shown: The code to read on the page: functions, whose source is shown, and texts of Lua.
        books: Where its accounts are kept.
        durability: What survives a crash.
        unavailable: Says why it cannot run here, or "" if it can.
    """

    name: str
    label: str
    text: str
    kind: Kind
    round_trips: int | None
    transfer: Callable[[redis.Redis, Order], Receipt]
    shown: tuple[Callable[..., object] | str, ...]
    books: Books = REDIS_BOOKS
    durability: Durability = Durability.MEMORY
    unavailable: Callable[[], str] = _available

    @property
    def is_safe(self) -> bool:
        """Whether it promises to conserve the money."""
        return self.kind is not Kind.WARNING

    @property
    def is_packed(self) -> bool:
        """Whether it packs a read and a write in as few round trips as WATCH or a lock can."""
        return self.round_trips == PACKED_TRIPS


PACKED_TRIPS = 2

_IN_MEMORY = (
    Strategy(
        name="redis_lock",
        label="redis_lock packed",
        text="Locks both accounts in one step, waits in a queue until they are handed on, reads "
        "with the acquire, and writes with the release.",
        kind=Kind.LOCK,
        round_trips=2,
        transfer=explicit_lock,
        shown=(explicit_lock, questions, moves),
    ),
    Strategy(
        name="optimistic",
        label="optimistic",
        text="The library watches the accounts and reads them in one packet, and starts again if "
        "anybody changed them. It applies the transfer once even if a reply is lost.",
        kind=Kind.OPTIMISTIC,
        round_trips=2,
        transfer=optimistic_transaction,
        shown=(optimistic_transaction,),
    ),
    Strategy(
        name="watch_packed",
        label="WATCH packed",
        text="WATCH and the reads travel in one packet and MULTI to EXEC in another, on "
        "redis-py's own connection. An optimistic transaction cannot cost less in Python.",
        kind=Kind.OPTIMISTIC,
        round_trips=2,
        transfer=watch_packed,
        shown=(watch_packed, exchange, questions, moves),
    ),
    Strategy(
        name="watch",
        label="WATCH by hand",
        text="WATCH, the reads, then MULTI and EXEC on a pipeline of redis-py, as the book writes "
        "it: one round trip for each step.",
        kind=Kind.OPTIMISTIC,
        round_trips=5,
        transfer=watch_by_hand,
        shown=(watch_by_hand,),
    ),
    Strategy(
        name="redis_lock_client",
        label="redis_lock, redis-py client",
        text="Locks both accounts in one step, and reads and writes with a redis-py client "
        "meanwhile. Code that talks to anything else inside the lock does the same.",
        kind=Kind.LOCK,
        round_trips=4,
        transfer=plain_lock,
        shown=(plain_lock,),
    ),
    Strategy(
        name="redis_py",
        label="redis-py's Lock",
        text="Acquires redis-py's lock for each account, and asks again every 100 ms, its "
        "default, while somebody else holds one.",
        kind=Kind.LOCK,
        round_trips=6,
        transfer=redis_py_lock,
        shown=(redis_py_lock,),
    ),
    Strategy(
        name="book_lua",
        label="Book: Lua lock",
        text="Acquires the second lock of “Redis in Action” for each account: one script "
        "acquires, one releases, and a waiter asks again every millisecond.",
        kind=Kind.LOCK,
        round_trips=6,
        transfer=partial(book_lock, book_locks.lua_lock),
        shown=(book_lock, book_locks.ACQUIRE, book_locks.RELEASE),
    ),
    Strategy(
        name="book_setnx",
        label="Book: SETNX lock",
        text="Acquires the first lock of “Redis in Action” for each account, with SETNX and "
        "EXPIRE; a waiter asks again every millisecond.",
        kind=Kind.LOCK,
        round_trips=12,
        transfer=partial(book_lock, book_locks.setnx_lock),
        shown=(book_lock, book_locks.try_setnx, book_locks.release_setnx),
    ),
    Strategy(
        name="script",
        label="One Lua script",
        text="Checks and moves inside the server, where nothing comes between: the limit, for "
        "work that needs nothing but data of one server.",
        kind=Kind.LIMIT,
        round_trips=1,
        transfer=one_script,
        shown=(one_script, run_transfer, TRANSFER),
    ),
    Strategy(
        name="unprotected",
        label="No locking (unsafe)",
        text="Reads both balances and writes new ones without a lock. Of two transfers at once, "
        "one overwrites the other, and money is lost or made up.",
        kind=Kind.WARNING,
        round_trips=4,
        transfer=unprotected,
        shown=(unprotected,),
    ),
)


def _on_disk(strategy: Strategy) -> Strategy:
    return replace(
        strategy,
        name=f"{strategy.name}_aof",
        label=f"{strategy.label}, AOF",
        text=f"The same as {strategy.label}, on a server that writes each change to its disk "
        "before it answers.",
        durability=Durability.AOF,
        unavailable=no_own_server,
    )


_ON_DISK = tuple(
    _on_disk(strategy)
    for strategy in _IN_MEMORY
    if strategy.name in {"redis_lock", "optimistic", "watch_packed", "script"}
)


def _in_rows(
    name: str, label: str, text: str, transfer: Callable[[redis.Redis, Order], Receipt]
) -> Strategy:
    return Strategy(
        name=name,
        label=f"Rows: {label}",
        text=text,
        kind=Kind.ROWS,
        round_trips=None,
        transfer=transfer,
        shown=(transfer, move),
        books=ROWS,
        durability=Durability.ROWS,
        unavailable=unavailable,
    )


_IN_ROWS = (
    _in_rows(
        "rows_db",
        "database locks",
        "SELECT FOR UPDATE locks the rows of both accounts until COMMIT; SQLite, which has no row "
        "locks, locks the whole database with BEGIN IMMEDIATE.",
        database_locks,
    ),
    _in_rows(
        "rows_redis",
        "lock_rows",
        "Locks the rows of both accounts on Redis, as SELECT FOR UPDATE would on any database. It "
        "verifies the locks before COMMIT, and releases them after it.",
        row_locks,
    ),
    _in_rows(
        "rows_fenced",
        "fenced writes",
        "Locks on Redis stand around the transaction, and the rows keep the fencing token of the "
        "last hold. So a holder that lost its locks unnoticed cannot write.",
        fenced_writes,
    ),
)

ROWS_NOTE = (
    "On SQLite, each transaction over rows begins with BEGIN IMMEDIATE. The database runs one at a "
    "time, whatever else is locked on Redis."
)
"""What to know of all strategies over rows, wherever their figures are shown."""

STRATEGIES = {strategy.name: strategy for strategy in (*_IN_MEMORY, *_ON_DISK, *_IN_ROWS)}


def label_of(name: str) -> str:
    """A strategy's label; the name itself if the strategy is no longer in the table."""
    return STRATEGIES[name].label if name in STRATEGIES else name


def named_methods(names: Iterable[str] = STRATEGIES) -> str:
    """The name of each strategy, or of some, with its label where that differs, as a text."""
    labels = {name: label_of(name) for name in names}
    return ", ".join(
        name if name == label else f"{name} ({label})" for name, label in labels.items()
    )


def durability_of(name: str) -> Durability:
    """What survives a crash with a strategy; in memory if the table has the strategy no longer."""
    return STRATEGIES[name].durability if name in STRATEGIES else Durability.MEMORY


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
    work_seconds: float = 0.0,
) -> Receipt:
    """Move ``cents`` from one account to the other, by one of ``STRATEGIES``.

    Args:
        conn: Client of the bank's server.
        sender: Account id.
        recipient: Account id.
        cents: Amount, at least 1.
        strategy: A key of ``STRATEGIES``.
        operation_id: Names this transfer; a second call with the same one moves nothing. None: a
            new one.
        marker_seconds: How long the bank remembers the operation id.
        work_seconds: How long to work between reading and writing.

    Raises:
        InvalidTransfer: Amount or accounts make no sense.
        UnknownAccount: One of the accounts does not exist.
        InsufficientFunds: The sender's balance is lower than the amount.
        TooMuchContention: Others kept the accounts changing or locked for too long; nothing was
            moved.
        LockLost: The lease of a lock ended before the write, so nothing was moved.
        ValueError: There is no such strategy.
    """
    check_request(sender, recipient, cents)
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}.")
    order = Order(
        sender, recipient, cents, operation_id or uuid.uuid4().hex, marker_seconds, work_seconds
    )
    return STRATEGIES[strategy].transfer(conn, order)
