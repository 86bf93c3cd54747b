"""`lock_rows` and `lock_model`: rows or whole models stay locked for a block or a transaction."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from typing import Any, Generic, Never, TypedDict, TypeVar, Unpack

from django.db import router
from django.db.models import Manager, Model, QuerySet

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.drivers.base import run_blocking
from redis_locks.exceptions import LockNotAvailable
from redis_locks.locks.hold import Hold
from redis_locks.locks.lock import Lock, Side
from redis_locks.locks.options import options_of, varied
from redis_locks.locks.scope import ScopeName
from redis_locks.locks.timeouts import bounded
from redis_locks.locks.with_blocks import (
    Block,
    async_block_exit,
    block_entered,
    block_exit,
    refuse_in_loop,
    watch_loss,
)
from redis_locks.protocol.retry import at_last
from redis_locks.rows.locked_rows import LockedRows, Locking
from redis_locks.rows.names import model_lock_name
from redis_locks.rows.sources import InstanceSource, QuerySource, RowSource
from redis_locks.values.arguments import flag, refuse_unknown
from redis_locks.values.arguments import limit as most
from redis_locks.values.durations import wait_seconds
from redis_locks.values.modes import RowMode, row_mode

M = TypeVar("M", bound=Model)


class _AllHolds:
    """The holds of a block's rows, which end together.

    It stands in a `Block` as its last hold, until the block is over.
    """

    is_open = True

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds

    @property
    def kept(self) -> bool:
        return any(hold.kept for hold in self._holds)

    def end_block(self, error: BaseException | None) -> None:
        with ExitStack() as stack:
            for hold in self._holds:
                stack.callback(hold.end_block, error)

    async def watch_loss(self) -> None:
        async with AsyncExitStack() as watched:
            # If one of them is lost by now, the others are released.
            for hold in self._holds:
                watched.push_async_callback(hold.aend_block, None)
                if watch_loss(hold):
                    await hold.aend_block(None)
            watched.pop_all()

    async def aend_block(self, error: BaseException | None) -> None:
        async with AsyncExitStack() as stack:
            for hold in self._holds:
                stack.push_async_callback(hold.aend_block, error)

    def leave_behind(self) -> None:
        """Nothing: the block has each hold as well."""


class RowOptions(TypedDict, total=False):
    """The options of a lock that locks of rows and models have, too; `Lock` says what they do."""

    lease: float | Unset
    renew: bool | Unset
    using: str | None
    label: str | None
    scope: ScopeName
    commit_guard: bool


class lock_rows(Generic[M]):  # noqa: N801 - used as a block, so it reads like a function
    """Rows, locked as ``select_for_update`` would lock them, on any database and none of its own.

    A context manager, sync and async, that gives a list of instances: the rows as they are once
    they are locked. One step locks all rows or none, and takes the intent on their models, which
    `lock_model` excludes. Inside ``atomic()`` the rows stay locked until the transaction ends, and
    each row is locked once. Elsewhere they stay locked until the block ends.

    The rows of a queryset are read again under the lock, so rows that no longer match are left out.
    Instances are read again in place, so unsaved changes are lost: lock first, then change. The
    locks are advisory: code that doesn't ask for them can still write the rows.

    Inside ``atomic()``, SQLite needs ``"transaction_mode": "IMMEDIATE"`` in ``OPTIONS``, and other
    databases need READ COMMITTED. Otherwise the second reading shows what the transaction read
    first. With `skip_locked`, all models must be in one partition. Unlike in PostgreSQL, row locks
    can't be upgraded: take the strongest mode you need.

    One hold has up to 1,000 locks. For more rows, the model with most of them is locked in their
    place, in the same mode. With `skip_locked`, rows are locked one by one if somebody else has a
    part of the model.

    Args:
        rows: A queryset, a manager, an instance, or several instances.
        mode: The mode, with PostgreSQL's conflicts. "exclusive": FOR UPDATE. "no_key": FOR NO KEY
            UPDATE. "shared": FOR SHARE. "key_share": FOR KEY SHARE.
        nowait: Raise LockNotAvailable at once if somebody else holds one of them.
        skip_locked: Leave out the rows that somebody else holds or waits for; never waits.
        of: The relations whose rows are locked too, and "self" for the rows themselves. Empty:
            the rows and those of the relations that the queryset's ``select_related`` names.
        wait: Seconds to wait in all. 0: as `nowait`. None: for ever.
        limit: How many rows to lock at most; None for all. With `skip_locked`, it reads on behind
            rows of others until it has so many.
        lease: Seconds a hold lives unless renewed or extended.
        renew: Whether the hold is renewed in the background.
        using: The Redis server, as for `Lock`; the database is that of the rows.
        label: What the holder runs, for people.
        scope: "auto", "block" or "transaction": until when the rows stay locked; see `Lock`.
        commit_guard: Whether a hold kept by a transaction is verified just before COMMIT.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or excludes another one.
    """

    def __init__(
        self,
        rows: QuerySet[M] | Manager[M] | M | Iterable[M],
        mode: RowMode = "exclusive",
        *others: Never,
        nowait: bool = False,
        skip_locked: bool = False,
        of: Sequence[str] = (),
        wait: float | Unset | None = UNSET,
        limit: int | None = None,
        **options: Unpack[RowOptions],
    ) -> None:
        if others or isinstance(mode, Model | QuerySet):
            msg = "lock_rows() takes several instances as a list: lock_rows([first, second])"
            raise TypeError(msg)
        self._wait = checked_wait(wait, nowait=nowait, skip_locked=skip_locked)
        refuse_unknown(options, RowOptions.__optional_keys__, "lock_rows")
        checked = options_of(**options)  # raises now what is wrong with them, not at the acquire
        source = _source(rows, checked_of(of), most(limit, lowest=1), skip_locked=skip_locked)
        self._using = checked.using
        self._locking: Locking[M] = Locking(
            source,
            row_mode(mode),
            skip_locked,
            # The guard looks at row locks whatever database commits.
            replace(checked.scope, database=source.database),
            options,
        )
        self._block = Block()
        self._asked = False

    def __del__(self) -> None:
        # The default is for an object whose constructor raised: it must not warn.
        if not getattr(self, "_asked", True):
            warnings.warn(
                "lock_rows() by itself locks nothing: write `with lock_rows(...) as rows:`, or "
                "call acquire()",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )

    def acquire(self, *, wait: float | Unset | None = UNSET) -> LockedRows[M] | None:
        """Return the rows, locked, or None if somebody else still held one after `wait` seconds.

        Blocks for up to `wait` seconds (not given: as long as the block would). The rows stay
        locked until `LockedRows.release` or the transaction's end.

        Raises:
            DeadlockDetected: Waiting on would never have ended.
            LockError: The transaction has one of the rows in a weaker mode.
            LockLost: Some of the rows were lost while others were locked.
            ImproperlyConfigured: A DEFERRED transaction of SQLite is open.
            LockBackendError: Redis could not be asked.
            Model.DoesNotExist: An instance is gone.
        """
        self._asked = True
        refuse_in_loop("acquire()", "Await aacquire()")
        try:
            return self._lock(wait)
        except LockNotAvailable:
            return None

    async def aacquire(self, *, wait: float | Unset | None = UNSET) -> LockedRows[M] | None:
        """Return the rows, locked, or None; see `acquire`. Cancellation leaves nothing locked."""
        try:
            return await self._alock(wait)
        except LockNotAvailable:
            return None

    def __enter__(self) -> LockedRows[M]:
        """Lock the rows, or raise.

        Raises:
            LockNotAvailable: Somebody else holds one, which the error names, and the wait is 0.
            LockTimeout: Somebody else still held one after the wait.
            DeadlockDetected: Waiting on would never have ended.
            LockError: The transaction has one of the rows in a weaker mode.
            LockLost: Some of the rows were lost while others were locked.
            ImproperlyConfigured: A DEFERRED transaction of SQLite is open.
            LockBackendError: Redis could not be asked.
            Model.DoesNotExist: An instance is gone.
        """
        self._require_unused()
        self._asked = True
        self._block = block = block_entered(self)
        rows = self._lock(UNSET, block)
        block.append(_AllHolds(rows.holds))
        return rows

    @block_exit
    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        """Release. Raises LockLost if the hold was lost, unless the body raised already."""
        self._block.end(exc)

    def __aenter__(self) -> Coroutine[Any, Any, LockedRows[M]]:
        """Lock the rows, or raise; see `__enter__`. If the hold is lost, the block is cancelled."""
        return self._begin_ablock(block_entered(self, is_async=True))

    async def _begin_ablock(self, block: Block) -> LockedRows[M]:
        self._require_unused()
        self._block = block
        rows = await self._alock(UNSET, block)
        holds = _AllHolds(rows.holds)
        block.append(holds)
        await holds.watch_loss()
        return rows

    @async_block_exit
    async def __aexit__(
        self, exc_type: object, exc: BaseException | None, traceback: object
    ) -> None:
        """Release; see `__exit__`."""
        await self._block.aend(exc)

    def _lock(self, wait: float | Unset | None, block: Block | None = None) -> LockedRows[M]:
        side = Side(self._using, block)
        side.ends = at_last()
        return run_blocking(self._locking.lock(side, self._seconds(wait)))

    async def _alock(self, wait: float | Unset | None, block: Block | None = None) -> LockedRows[M]:
        side = Side.of_loop(self._using, block)
        side.ends = at_last()
        return await self._locking.lock(side, self._seconds(wait))

    def _seconds(self, wait: float | Unset | None) -> float | None:
        self._asked = True
        if wait is UNSET:
            wait = self._wait
        return bounded(get_settings().wait if wait is UNSET else wait_seconds(wait))

    def _require_unused(self) -> None:
        if self._block and self._block[-1].is_open:
            msg = "these rows are locked by this block already; call lock_rows() for each block"
            raise RuntimeError(msg)


def _source(
    rows: object, of: tuple[str, ...], limit: int | None, *, skip_locked: bool
) -> RowSource[Any]:
    if isinstance(rows, Manager):
        rows = rows.all()
    if isinstance(rows, QuerySet):
        return QuerySource(rows, of, limit, skip_locked=skip_locked)
    instances = [rows] if isinstance(rows, Model) else rows
    if isinstance(instances, Iterable) and not isinstance(instances, str | bytes):
        instances = list(instances)
        if all(isinstance(instance, Model) for instance in instances):
            return InstanceSource(instances, of, limit, skip_locked=skip_locked)
    msg = f"rows must be a queryset or instances of a model, not {rows!r} ({type(rows).__name__})"
    if isinstance(rows, type) and issubclass(rows, Model):
        msg += (
            f": write {rows.__name__}.objects.all(), or lock_model({rows.__name__}) for all rows "
            "at once"
        )
    raise TypeError(msg)


def checked_wait(
    wait: float | Unset | None, *, nowait: bool, skip_locked: bool
) -> float | Unset | None:
    """Return the seconds to wait.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The arguments exclude each other.
    """
    flag(nowait, "nowait")
    flag(skip_locked, "skip_locked")
    arguments = {"nowait": nowait, "skip_locked": skip_locked, "wait": wait is not UNSET}
    given = [argument for argument, is_given in arguments.items() if is_given]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} exclude each other: give one of them")
    return 0.0 if nowait or skip_locked else wait if wait is UNSET else wait_seconds(wait)


def checked_of(of: object) -> tuple[str, ...]:
    """Return relations as a tuple; raises TypeError."""
    if isinstance(of, list | tuple) and all(isinstance(path, str) for path in of):
        return tuple(of)
    msg = f"of must be a list or tuple of relations such as ('self', 'owner'), not {of!r}"
    raise TypeError(msg)


class lock_model(Lock):  # noqa: N801 - used as a block, so it reads like a function
    """Locks a whole model as if it locked each row: a `Lock` that excludes `lock_rows`.

    The modes conflict with those of rows as row modes conflict with each other. This includes rows
    that are locked as the parents of a child's rows. With ``"shared"``, others can lock rows to
    read, but not to write.

    Args:
        model: The model.
        mode: As for `lock_rows`.
        nowait: Raise LockNotAvailable at once if somebody else is in the way.
        wait: Seconds to wait. 0: as `nowait`. None: for ever.
        database: The alias of the database; None is the one to which the model is written. Its
            transactions keep the hold.
        lease: Seconds a hold lives unless renewed or extended.
        renew: Whether the hold is renewed in the background.
        using: The Redis server, as for `Lock`.
        label: What the holder runs, for people.
        scope: As for `Lock`.
        commit_guard: As for `Lock`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or excludes another one.
    """

    _kind = "row"

    def __init__(
        self,
        model: type[Model],
        mode: RowMode = "exclusive",
        *,
        nowait: bool = False,
        wait: float | Unset | None = UNSET,
        database: str | None = None,
        **options: Unpack[RowOptions],
    ) -> None:
        if not _has_table(model):
            raise _no_model(model)
        refuse_unknown(options, RowOptions.__optional_keys__, "lock_model")
        alias = database if database is not None else router.db_for_write(model)
        super().__init__(
            model_lock_name(model, alias),
            wait=checked_wait(wait, nowait=nowait, skip_locked=False),
            database=alias,
            on_unavailable="raise",  # as rows do
            **options,
        )
        self.options = varied(self.options, mode=row_mode(mode))


def _no_model(given: object) -> TypeError:
    # To show a queryset would run its query.
    shown = "a queryset" if isinstance(given, QuerySet) else repr(given)
    fix = ": lock rows by lock_rows()" if isinstance(given, Model | QuerySet) else ""
    return TypeError(f"model must be a model that has a table, such as Order, not {shown}{fix}")


def _has_table(model: object) -> bool:
    is_model = isinstance(model, type) and issubclass(model, Model)
    return is_model and not model._meta.abstract  # type: ignore[attr-defined]
