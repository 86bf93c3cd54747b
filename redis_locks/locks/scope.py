"""Scope: a hold that is taken inside ``atomic()`` is kept until that transaction ends."""

from __future__ import annotations

from asyncio import _get_running_loop  # documented, and public in all but name
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from redis_locks.locks.transactions import (
    Keepers,
    Transactions,
    known,
    only_of_testcase,
    transactions_of,
)
from redis_locks.values.arguments import flag, optional_text

_OPEN = frozenset({2, 3})
"""What libpq calls INTRANS and INERROR."""

ScopeName = Literal["auto", "block", "transaction"]
"""Until when a hold is kept: see `Scope`."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Until when a lock's holds are kept.

    Args:
        name: "auto": until the end of the transaction they are taken in, if any, else of their
            block. "block": always of their block. "transaction": as "auto", but there must be
            a transaction.
        database: The alias of the database whose transactions count; None: those of all.
        commit_guard: Whether they are verified before COMMIT, of transactions around and inside
            them.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `name` is none of these, or `database` is empty.
    """

    name: ScopeName
    database: str | None
    commit_guard: bool
    guarded: frozenset[str] | None = field(init=False)
    """The databases before whose COMMIT the holds are verified; None: all."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            msg = f"scope must be a string, not {self.name!r} ({type(self.name).__name__})"
            raise TypeError(msg)
        optional_text(self.database, "database")
        if self.name not in get_args(ScopeName):
            msg = f"scope must be 'auto', 'block' or 'transaction', not {self.name!r}"
            raise ValueError(msg)
        if self.database == "":
            msg = "database must be an alias of DATABASES such as 'default', not ''"
            raise ValueError(msg)
        flag(self.commit_guard, "commit_guard")
        guarded: frozenset[str] | None = frozenset()
        if self.commit_guard and self.name != "block":
            guarded = None if self.database is None else frozenset({self.database})
        object.__setattr__(self, "guarded", guarded)  # it is frozen

    def keepers(self) -> Keepers | None:
        """Return the open transactions that keep a hold which this thread takes now, or None.

        Raises:
            TransactionManagementError: There are none, and the scope is "transaction". Or there is
                one that Django does not know of.
        """
        if self.name == "block":
            return None
        found: list[Transactions] = []
        # Django takes long to look a connection up, and may have others for each task of a loop.
        here = known.connections if _get_running_loop() is None else {}
        configured = connections.settings
        for alias in configured if self.database is None else (self.database,):
            connection = here.get(alias)
            if connection is None or connection.settings_dict is not configured[alias]:
                connection = _connection(alias, here)
            # Most often there is no transaction, so this much is asked here.
            if connection is not None and (
                connection.connection is not None
                or not connection.settings_dict["AUTOCOMMIT"]
                or connection.in_atomic_block
            ):
                found += _transactions_of(connection)
        if self.name == "transaction" and not found:
            raise self._missing()
        return Keepers(found, self.guarded) if found else None

    def _missing(self) -> TransactionManagementError:
        on, using = "", ""
        if self.database is not None:
            on, using = f" on database {self.database!r}", f"using={self.database!r}"
        msg = (
            f"scope='transaction' needs a transaction{on}: take the lock inside "
            f"atomic({using}), or use scope='auto'"
        )
        if self.database is not None:  # as row locks have it, whose querysets take no scope
            msg += ". In place of select_for_lock(), write `with lock_rows(...) as rows:`"
        return TransactionManagementError(msg)

    def refuse_async(self) -> None:
        """Raise TransactionManagementError if only a transaction will do: async code has none."""
        if self.name == "transaction":
            msg = (
                "scope='transaction' is not for async code, which has no transactions: take the "
                "lock in the function that sync_to_async calls, inside its atomic()"
            )
            raise TransactionManagementError(msg)


def _connection(alias: str, here: dict[str, BaseDatabaseWrapper]) -> BaseDatabaseWrapper | None:
    """Return this thread's connection to a database, and keep it in `here`.

    None: its driver is not installed.
    """
    try:
        found = here[alias] = connections[alias]
    except (ImproperlyConfigured, ImportError):
        return None  # so no transaction is open there
    return found


def _transactions_of(connection: BaseDatabaseWrapper) -> Sequence[Transactions]:
    """Return those of a connection if one is open.

    Raises TransactionManagementError if Django does not know of it.
    """
    raw = connection.connection
    autocommit = connection.settings_dict["AUTOCOMMIT"] if raw is None else connection.autocommit
    if connection.in_atomic_block or not autocommit:
        return (transactions_of(connection),) if _in_transaction(connection) else ()
    if raw is not None:
        _refuse_begun_by_hand(connection)
    return ()


def _refuse_begun_by_hand(connection: BaseDatabaseWrapper) -> None:
    """Raise if a connection that Django takes for free is in a transaction.

    One is, for example, after ``cursor.execute("BEGIN")``.
    """
    raw: Any = connection.connection
    if connection.vendor == "sqlite":
        is_open = raw.in_transaction
    else:
        is_open = connection.vendor == "postgresql" and raw.info.transaction_status in _OPEN
    if is_open:
        alias = connection.alias
        msg = (
            f"a transaction of database {alias!r} was begun by hand. Django does not know when it "
            f"ends, so the lock might be released too early. Write atomic(using={alias!r}); only a "
            "lock with scope='block' can be taken here"
        )
        raise TransactionManagementError(msg)


def _in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether code under test, or in production, has a transaction there.

    It has one by ``atomic``, or without autocommit.
    """
    if connection.in_atomic_block:
        # A test case's transactions never commit: code under test is not inside one.
        return not (only_of_testcase(connection) or connection.closed_in_transaction)
    connection.ensure_connection()  # connecting later would empty run_on_commit
    return True
