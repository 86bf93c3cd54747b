"""Scope: a hold that is taken inside ``atomic()`` is kept until that transaction ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from redis_locks.locks.held_until_commit import Kept, Taken, add, kept_in, only_of_testcase
from redis_locks.locks.hold import Hold

ScopeName = Literal["auto", "block", "transaction"]
"""Until when a hold is kept: see `Scope`."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Until when a lock's holds are kept.

    Args:
        name: "auto": until the end of the transaction they are taken in, if any, else of their
            block. "block": always of their block. "transaction": as "auto", but there must be
            a transaction.
        database: The alias of the database whose transactions count.
        commit_guard: Whether they are verified before COMMIT.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `name` is none of these, or `database` is empty.
    """

    name: ScopeName
    database: str
    commit_guard: bool

    def __post_init__(self) -> None:
        for argument, value in (("scope", self.name), ("database", self.database)):
            if not isinstance(value, str):
                msg = f"{argument} must be a string, not {value!r} ({type(value).__name__})"
                raise TypeError(msg)
        if self.name not in get_args(ScopeName):
            msg = f"scope must be 'auto', 'block' or 'transaction', not {self.name!r}"
            raise ValueError(msg)
        if not self.database:
            msg = "database must be an alias of DATABASES such as 'default', not ''"
            raise ValueError(msg)
        if not isinstance(self.commit_guard, bool):
            msg = f"commit_guard must be True or False, not {self.commit_guard!r}"
            raise TypeError(msg)

    def transaction(self) -> Transaction | None:
        """Return the transaction that keeps a hold which this thread takes now, or None.

        Raises:
            TransactionManagementError: There is none, and the scope is "transaction".
        """
        if self.name == "block":
            return None
        connection = connections[self.database]
        # Most often there is none: not asked in one more function.
        autocommit = (
            connection.settings_dict["AUTOCOMMIT"]
            if connection.connection is None
            else connection.autocommit
        )
        if (connection.in_atomic_block or not autocommit) and _in_transaction(connection):
            return Transaction(connection, commit_guard=self.commit_guard)
        if self.name == "transaction":
            msg = (
                f"scope='transaction' needs a transaction on database {self.database!r}: take the "
                f"lock inside atomic(using={self.database!r}), or use scope='auto'"
            )
            raise TransactionManagementError(msg)
        return None

    def guard(self, hold: Hold, databases: Iterable[str]) -> None:
        """Verify `hold`, whose block is around the open transactions of `databases`, before COMMIT."""
        if self.name == "block" or not self.commit_guard:
            return
        for alias in databases:
            Transaction(connections[alias]).guard(hold)

    def refuse_async(self) -> None:
        """Raise TransactionManagementError if only a transaction will do: async code has none."""
        if self.name == "transaction":
            msg = (
                "scope='transaction' is not for async code, which has no transactions: take the "
                "lock in the function that sync_to_async calls, inside its atomic()"
            )
            raise TransactionManagementError(msg)


def _in_transaction(connection: BaseDatabaseWrapper) -> bool:
    if connection.in_atomic_block:
        # A test case's transactions never commit: code under test is not inside one.
        real = not only_of_testcase(connection)
        return real and not connection.closed_in_transaction
    if connection.connection is not None:
        return not connection.autocommit
    if connection.settings_dict["AUTOCOMMIT"]:
        return False
    connection.ensure_connection()  # connecting later would empty run_on_commit
    return True


class Transaction(NamedTuple):
    """The open transaction of a connection, as a keeper of holds."""

    connection: BaseDatabaseWrapper
    commit_guard: bool = True

    def find(self, covers: Callable[[Taken], bool]) -> Hold | None:
        """Return the kept hold that covers what is wanted: in one transaction a lock is taken once.

        The hold is verified before COMMIT if any lock that found it asked for that.

        Raises:
            LockLost: It is lost, and so is the transaction's work.
        """
        for kept in kept_in(self.connection):
            if kept.taken and covers(kept.taken):
                kept.hold.check()
                kept.guarded |= self.commit_guard
                return kept.hold
        return None

    def keep(self, hold: Hold, taken: Taken) -> None:
        """Release `hold` when the transaction, or the savepoint it is in now, has ended."""
        add(self.connection, Kept(hold, taken, guarded=self.commit_guard))

    def guard(self, hold: Hold) -> None:
        """Verify `hold`, whose block is around this transaction, before COMMIT."""
        add(self.connection, Kept(hold, None, guarded=True, releases=False))
