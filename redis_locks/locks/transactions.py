"""Transactions that keep holds, and the methods of a connection that end them.

Each connection to a database gets a `Transactions` when Django opens it. Six of its methods are
wrapped, once. Before COMMIT the commit guard verifies what is kept, and what is held around the
transaction. After the database's action, whatever ended with it is released.
"""

from __future__ import annotations

import logging
from asyncio import _get_running_loop  # documented, and public in all but name
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from sys import exception
from threading import local
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

from redis_locks.exceptions import LockError
from redis_locks.protocol.callers import open_around
from redis_locks.values.modes import Taken

if TYPE_CHECKING:
    from redis_locks.connections.backends import Backend
    from redis_locks.locks.hold import Hold

logger = logging.getLogger("redis_locks")

ENDS: Final = (
    "commit",
    "rollback",
    "savepoint",
    "savepoint_commit",
    "savepoint_rollback",
    "close",
    "set_autocommit",
)
"""The methods of a connection that are wrapped."""

_NAME: Final = "_redis_locks_transactions"

Undo = Callable[[], object]


class Kept:
    """A hold that is released when the last of the transactions that keep it has ended."""

    __slots__ = ("_taken", "hold", "keepers")

    def __init__(self, hold: Hold, taken: Taken) -> None:
        self.hold = hold
        self._taken = taken
        self.keepers: set[Transactions] = set()
        """The transactions that keep it."""

    @property
    def taken(self) -> Taken:
        """What the transaction has by it now; the hold may have been upgraded or downgraded."""
        taken = self._taken
        return taken if taken.mode == self.hold.mode else taken._replace(mode=self.hold.mode)

    @property
    def is_open(self) -> bool:
        """Whether all of it has yet to be released.

        An interrupt as it was kept may have ended it.
        """
        return all(part.is_open for part in self.hold.parts)

    def leave(
        self,
        ended: Transactions,
        *,
        committed: bool,  # noqa: ARG002 - for subclasses
    ) -> None:
        """Note that a transaction has ended, and release the hold after the last.

        Raises no error, only an interrupt.

        A caller that got an error after COMMIT would repeat the work.
        """
        self.keepers.discard(ended)
        if self.keepers:
            return
        self.hold.kept = False
        try:
            self.hold.end_block(None)
        except LockError as error:
            logger.warning("%s (found when its transaction had ended)", error)


class Transactions:
    """The transactions of one connection, one after the other: what the open one keeps."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self._kept: dict[Kept, frozenset[object]] = {}
        """Each with the savepoints in which it was taken."""
        self._places: dict[tuple[Backend, str], list[Kept]] = {}
        """Where to find them. Not by an intent, which covers nothing."""
        self._undoes: list[tuple[frozenset[object], Undo]] = []
        """What to do if it is rolled back, and to what, each with the savepoints in which it was
        asked for.
        """
        self._savepoints: list[object] = []
        """The open savepoints, those of ``atomic`` and those set by hand."""
        self._rolled_back: object = None
        """The savepoint to which it was rolled back last."""
        ends: tuple[Callable[..., Any], ...] = (
            self._commit,
            self._rollback,
            self._savepoint,
            self._savepoint_commit,
            self._savepoint_rollback,
            self._close,
            self._set_autocommit,
        )
        for name, end in zip(ENDS, ends, strict=True):
            setattr(connection, name, partial(end, getattr(connection, name)))

    def find(self, taken: Taken, may_join: Callable[[Hold], bool]) -> Kept | None:
        """Return what covers `taken` and may be joined: in one transaction a lock is taken once."""
        name = next(iter(taken.names))
        for kept in reversed(self._places.get((taken.backend, name), ())):
            if kept.taken.covers(taken) and kept.is_open and may_join(kept.hold):
                return kept
        return None

    def keep(self, kept: Kept) -> None:
        """Let it end with the transaction, or with the savepoint that is open now."""
        if kept in self._kept:
            return
        connection = self.connection
        kept.keepers.add(self)
        self._kept[kept] = frozenset(self._savepoints)
        self._index(kept)
        blocks: list[Any] = connection.atomic_blocks
        if blocks and is_of_testcase(blocks[0]) and not isinstance(blocks, _Blocks):
            connection.atomic_blocks = _Blocks(self, blocks)

    def _index(self, kept: Kept) -> None:
        taken = kept.taken
        for name in taken.names - taken.intents:
            self._places.setdefault((taken.backend, name), []).append(kept)

    def on_rollback(self, undo: Undo) -> None:
        """Call `undo` if it is rolled back, or a savepoint that is open now; it must not raise."""
        self._undoes.append((frozenset(self._savepoints), undo))

    def _undo(self, sid: object = None) -> None:
        """Call what is to be called after a rollback, to a savepoint or of all."""
        due: list[Undo] = []
        later: list[tuple[frozenset[object], Undo]] = []
        for savepoints, undo in self._undoes:
            if sid is None or sid in savepoints:
                due.append(undo)
            else:
                later.append((savepoints, undo))
        self._undoes = later
        with ExitStack() as stack:  # an interrupt of one keeps no other from being called
            for undo in reversed(due):
                stack.callback(undo)

    def end(self, ended: Sequence[Kept] | None = None, *, committed: bool) -> None:
        """Release what is kept, or only `ended`: the transaction, or a savepoint in it, is over.

        What an interrupt kept from being released is still kept: `_set_autocommit` releases it.
        """
        leaving = list(self._kept) if ended is None else ended
        if not leaving:
            return
        self._places.clear()
        interrupt = None
        for kept in leaving:
            try:
                kept.leave(self, committed=committed)
                self._kept.pop(kept, None)
            except BaseException as error:  # noqa: BLE001 - all others first
                interrupt = error
        for kept in self._kept:
            self._index(kept)
        blocks: list[Any] = self.connection.atomic_blocks
        if not self._kept and isinstance(blocks, _Blocks):
            self.connection.atomic_blocks = list(blocks)
        if interrupt is not None:
            raise interrupt

    # The methods of the connection

    def _commit(self, original: Callable[[], None]) -> None:
        connection = self.connection
        if not connection.in_atomic_block:
            self._guard(connection.rollback)
        try:
            original()
        except Error:
            raise  # it is not over: Django rolls back, or its caller does
        except BaseException:
            self.end(committed=False)  # for all that we know
            raise
        self._undoes.clear()
        self._savepoints.clear()
        # Before Django runs what `on_commit` was given: like a row lock, ours ends with COMMIT.
        self.end(committed=True)

    def _rollback(self, original: Callable[[], None]) -> None:
        original()
        self._savepoints.clear()
        self.end(committed=False)
        self._undo()

    def _close(self, original: Callable[[], None]) -> None:
        try:
            original()
        finally:
            self.end(committed=False)
            self._undo()

    def _set_autocommit(self, original: Callable[..., None], *args: Any, **options: Any) -> None:
        connection = self.connection
        self._savepoints.clear()
        _note_here(
            connection
        )  # a transaction may begin here, on a connection that another thread has opened
        if self._kept and not connection.in_atomic_block and exception() is not None:
            # Django's last step of a transaction. An interrupt came before COMMIT, or after it.
            committed = connection.run_commit_hooks_on_set_autocommit_on
            if not committed:
                connection.rollback()
            self.end(committed=committed)
        try:
            original(*args, **options)
        except LockError as error:
            error.may_be_done = True  # raised by what `on_commit` was given, after COMMIT
            raise

    def _savepoint(self, original: Callable[[], object]) -> object:
        sid = original()
        self._savepoints.append(sid)
        return sid

    def _forget_since(self, sid: object) -> None:
        """Forget a savepoint, and those that were set after it."""
        if sid in self._savepoints:
            del self._savepoints[self._savepoints.index(sid) :]

    def _savepoint_commit(self, original: Callable[[object], None], sid: object) -> None:
        connection = self.connection
        # In a test case, the end of the outermost block of the code under test.
        ends = bool(connection.atomic_blocks) and only_of_testcase(connection)
        if ends and sid != self._rolled_back:

            def roll_back() -> None:
                connection.savepoint_rollback(sid)  # type: ignore[arg-type]
                original(sid)

            self._guard(roll_back)
        original(sid)
        self._forget_since(sid)
        if ends:
            self._undoes.clear()
            self.end(committed=sid != self._rolled_back)

    def _savepoint_rollback(self, original: Callable[[object], None], sid: object) -> None:
        original(sid)
        self._forget_since(sid)
        self._savepoints.append(sid)  # it is open still
        self._rolled_back = sid
        ended = [kept for kept, savepoints in self._kept.items() if sid in savepoints]
        self.end(ended, committed=False)
        self._undo(sid)

    def _guard(self, roll_back: Callable[[], None]) -> None:
        """Verify what is kept, and what this thread holds around the transaction.

        If that fails, roll back, and raise.
        """
        alias = self.connection.alias
        try:
            kept = [part.lease for kept in self._kept for part in kept.hold.parts]
            found = [
                lease
                for lease in dict.fromkeys((*kept, *open_around()))
                if lease.guarded is None or alias in lease.guarded
            ]
            if not found:
                return
            # Not above, for each process that connects to a database imports this module.
            from redis_locks.locks.commit_guard import verify

            verify(found)
        except BaseException:
            # Django rolls back by itself only after a DatabaseError.
            try:
                roll_back()
            except Error:
                self.connection.close()
            raise


class _Blocks(list[Any]):
    """The open ``atomic`` blocks of a test case's connection, as long as a hold is kept.

    A block without savepoint inside of a test case's transaction ends nothing in the database. When
    it is the outermost of the code under test, in production it would have ended a transaction.
    """

    def __init__(self, transactions: Transactions, blocks: Iterable[Any]) -> None:
        super().__init__(blocks)
        self._transactions = transactions

    def pop(self, *args: Any) -> Any:
        """Leave a block, and end what it kept if nothing else will."""
        left = super().pop(*args)
        connection = self._transactions.connection
        if self and only_of_testcase(connection) and connection.savepoint_ids[-1:] == [None]:
            self._transactions.end(committed=not connection.needs_rollback and exception() is None)
        return left


class Keepers(NamedTuple):
    """The open transactions that keep what is taken now."""

    transactions: Sequence[Transactions]
    guarded: frozenset[str] | None
    """The databases before whose COMMIT it is verified; None: all."""

    def find(self, taken: Taken, may_join: Callable[[Hold], bool]) -> Hold | None:
        """Return the kept hold that covers what is wanted; all of them keep it from now on.

        See `Transactions.find`.

        Raises:
            LockLost: It is lost, and so is the work of the transaction.
        """
        kept = next(filter(None, (each.find(taken, may_join) for each in self.transactions)), None)
        if kept is None:
            return None
        kept.hold.check()
        for part in kept.hold.parts:
            part.lease.guard(self.guarded)
        for each in self.transactions:
            each.keep(kept)
        return kept.hold

    def keep(self, hold: Hold, taken: Taken) -> Hold:
        """Release `hold` when all of them have ended, or the savepoints that are open in them now.

        Return it.
        """
        kept = Kept(hold, taken)
        for each in self.transactions:
            each.keep(kept)
        hold.kept = True  # last: until then it is its block's, whatever interrupts this
        return hold

    def on_rollback(self, undo: Undo) -> None:
        """Call `undo` if one of them is rolled back, or a savepoint open in it; must not raise."""
        for each in self.transactions:
            each.on_rollback(undo)


def only_of_testcase(connection: BaseDatabaseWrapper) -> bool:
    """Whether the only open transactions are those of a test case, which never commit."""
    blocks: list[Any] = connection.atomic_blocks
    return all(map(is_of_testcase, blocks))


def is_of_testcase(block: Any) -> bool:
    """Whether a test case opened this ``atomic`` block, as Django's durable blocks ask."""
    return bool(block._from_testcase)  # noqa: SLF001 - Django has no public name


class Known(local):
    """The connections of one thread by alias: those that were opened or looked up there."""

    def __init__(self) -> None:
        self.connections: dict[str, BaseDatabaseWrapper] = {}


known: Final = Known()
"""This thread has these. A transaction that was begun here is of one of them, whatever way its
connection came here.
"""


def note_connected(connection: BaseDatabaseWrapper) -> None:
    """Have the transactions of a new connection verify holds before COMMIT.

    Have them release the holds that they keep.
    """
    transactions_of(connection)
    _note_here(connection)


def _note_here(connection: BaseDatabaseWrapper) -> None:
    """Note that this thread uses a connection. In a loop, Django may have others for each task."""
    if _get_running_loop() is None:
        known.connections[connection.alias] = connection


def transactions_of(connection: BaseDatabaseWrapper) -> Transactions:
    """Return those of a connection; the first time its methods are wrapped."""
    attributes = vars(connection)
    found: Transactions | None = attributes.get(_NAME)
    if found is None:
        found = attributes[_NAME] = Transactions(connection)
    return found
