"""Holds that a transaction keeps: until when, and the methods of the connection that end it.

Django keeps in ``connection.run_on_commit`` what is to happen after COMMIT, each entry with
the savepoints it stands in, and drops entries when their savepoint or transaction is rolled
back or the connection closed. A kept hold is such an entry, so Django does the book-keeping.
While there is one, the methods that end transactions are watched on that connection object:
after the database's action, whatever is no longer in the list is released; before COMMIT,
the guard looks whether everything is still held.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

from redis_locks.connections.backends import Backend
from redis_locks.exceptions import LockError
from redis_locks.locks.commit_guard import verify
from redis_locks.locks.hold import Hold
from redis_locks.values import modes

logger = logging.getLogger("redis_locks")


class Taken(NamedTuple):
    """Which locks a hold is of, and how it holds them; of `intents` it has the intent only."""

    backend: Backend
    names: frozenset[str]
    mode: str
    intents: frozenset[str] = frozenset()

    def mode_of(self, name: str) -> str:
        """Return how one of the locks is held."""
        return modes.intent(self.mode) if name in self.intents else self.mode

    def covers(self, other: Taken) -> bool:
        """Whether a holder of this has `other` as well."""
        return (
            self.backend is other.backend
            and self.names >= other.names
            and all(modes.covers(self.mode_of(name), other.mode_of(name)) for name in other.names)
        )

    def excludes(self, other: Taken) -> bool:
        """Whether `other` can surely not be had beside this."""
        return self.backend is other.backend and any(
            modes.excludes(self.mode_of(name), other.mode_of(name))
            for name in self.names & other.names
        )


class Kept:
    """A hold in a transaction. Django may call it after COMMIT; dropped, it ends by itself."""

    __slots__ = ("__weakref__", "_taken", "finalizer", "guarded", "hold")

    def __init__(
        self, hold: Hold, taken: Taken | None, *, guarded: bool, releases: bool = True
    ) -> None:
        self.hold = hold
        self._taken = taken
        self.guarded = guarded
        # The guard of a hold that a transaction keeps already changes nothing about that.
        hold.kept = hold.kept or releases
        self.finalizer = weakref.finalize(self, _release if releases else _leave_alone, hold)
        # A process that ends in mid-transaction leaves the lock to its lease.
        self.finalizer.atexit = False

    def __call__(self) -> None:
        """End: release the hold, the first time."""
        self.finalizer()

    @property
    def taken(self) -> Taken | None:
        """What the transaction has by it now; the hold may have been upgraded or downgraded."""
        return self._taken and self._taken._replace(mode=self.hold.mode)


def _release(hold: Hold) -> None:
    """Release without raising. A caller that got an error after COMMIT would repeat the work."""
    hold.kept = False
    try:
        hold.__exit__(None, None, None)
    except LockError as error:
        logger.warning("%s (found when its transaction had ended)", error)


def _leave_alone(hold: Hold) -> None:
    """Do nothing: the hold's block, which is around the transaction, releases it."""


def add(connection: BaseDatabaseWrapper, kept: Kept) -> None:
    """Have `kept` end with the transaction, or with the savepoint that is open now."""
    _watch(connection)
    # Not through on_commit(), which refuses when autocommit is off.
    hooks: list[Any] = connection.run_on_commit  # of (savepoints, function, robust)
    hooks.append((set(connection.savepoint_ids), kept, True))


def only_of_testcase(connection: BaseDatabaseWrapper) -> bool:
    """Whether the only open transactions are those of a test case, which never commit."""
    blocks: list[Any] = connection.atomic_blocks
    return all(map(is_of_testcase, blocks))


def is_of_testcase(block: Any) -> bool:
    """Whether a test case opened this ``atomic`` block, as Django's durable blocks ask."""
    return bool(block._from_testcase)  # noqa: SLF001 - Django has no public name


def kept_in(connection: BaseDatabaseWrapper) -> list[Kept]:
    """The holds that are kept on `connection` now, the earliest first."""
    hooks: list[Any] = connection.run_on_commit
    found = [function for _, function, _ in hooks if isinstance(function, Kept)]
    return [kept for kept in found if kept.finalizer.alive]


ENDS: Final = ("commit", "rollback", "savepoint_commit", "savepoint_rollback", "close")


def _watch(connection: BaseDatabaseWrapper) -> None:
    """Have `_ended` called in place of the methods that end transactions."""
    for name in ENDS:
        original = getattr(connection, name)
        if not isinstance(original, _Watched):
            setattr(connection, name, _Watched(connection, name, original))

    blocks: list[Any] = connection.atomic_blocks
    if blocks and is_of_testcase(blocks[0]) and not isinstance(blocks, _Blocks):
        connection.atomic_blocks = _Blocks(connection, blocks)


def _unwatch(connection: BaseDatabaseWrapper) -> None:
    if isinstance(connection.atomic_blocks, _Blocks):
        connection.atomic_blocks = list(connection.atomic_blocks)
    for name in ENDS:
        watched = vars(connection).get(name)
        if isinstance(watched, _Watched):
            delattr(connection, name)
            if (
                getattr(connection, name) != watched.original
            ):  # another package's wrapper, not Django's method
                setattr(connection, name, watched.original)


class _Blocks(list[Any]):
    """The open ``atomic`` blocks of a connection, as long as a hold is kept.

    A block without savepoint inside of a test case's transaction ends nothing in the database.
    When it is the outermost of the code under test, in production it would have ended a transaction.
    """

    def __init__(self, connection: BaseDatabaseWrapper, blocks: Iterable[Any]) -> None:
        super().__init__(blocks)
        self._connection = connection

    def pop(self, *args: Any) -> Any:
        """Leave a block, and end what it kept if nothing else will."""
        left = super().pop(*args)
        connection = self._connection
        if self and only_of_testcase(connection) and connection.savepoint_ids[-1:] == [None]:
            kept = kept_in(connection)
            _forget(connection, kept)
            _unwatch(connection)
            _end(kept)
        return left


class _Watched:
    """One of the methods that end transactions, as long as a hold is kept."""

    __slots__ = ("_connection", "_name", "original")

    def __init__(
        self, connection: BaseDatabaseWrapper, name: str, original: Callable[..., Any]
    ) -> None:
        self._connection = connection
        self._name = name
        self.original = original

    def __call__(self, *args: Any) -> Any:
        before = kept_in(self._connection)
        try:
            if before and self._commits():
                return self._commit(before, *args)
            return self.original(*args)
        finally:
            still = kept_in(self._connection)
            if not still:
                _unwatch(self._connection)
            _end(kept for kept in before if kept not in still)

    def _commits(self) -> bool:
        connection = self._connection
        if self._name == "savepoint_commit":
            # In a test case, the end of the outermost block of the code under test.
            return only_of_testcase(connection) and bool(connection.atomic_blocks)
        return self._name == "commit" and not connection.in_atomic_block

    def _commit(self, kept: list[Kept], *args: Any) -> Any:
        try:
            verify([entry.hold for entry in kept if entry.guarded])
        except BaseException:
            # Django rolls back by itself only after a DatabaseError.
            self._roll_back(*args)
            raise
        result = self.original(*args)
        # Before Django runs the other entries: like a row lock, ours ends with COMMIT.
        _forget(self._connection, kept)
        return result

    def _roll_back(self, *args: Any) -> None:
        connection = self._connection
        try:
            if self._name == "commit":
                connection.rollback()
            else:
                connection.savepoint_rollback(*args)
                self.original(*args)
        except Error:
            connection.close()


def _forget(connection: BaseDatabaseWrapper, kept: list[Kept]) -> None:
    """Take holds out of Django's list."""
    hooks: list[Any] = connection.run_on_commit
    hooks[:] = [hook for hook in hooks if hook[1] not in kept]


def _end(kept: Iterable[Kept]) -> None:
    """End all, whatever interrupts one of them."""
    with ExitStack() as stack:
        for entry in kept:
            stack.callback(entry)
