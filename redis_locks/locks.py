"""`Lock`, the description of a lock, and `Lock.acquire`, which makes a `Hold` of it."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Literal

from redis_locks.acquiring import Acquirable
from redis_locks.blocks import OpenBlocks
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.contention import not_available
from redis_locks.deadlines import bounded, bounds
from redis_locks.durations import wait_seconds
from redis_locks.holds import Hold
from redis_locks.keys import validate_names
from redis_locks.options import checked
from redis_locks.reads import Command, packed_reads
from redis_locks.scopes import ScopeName

Mode = Literal["exclusive", "shared"]


class Lock(Acquirable):
    """A lock, or a set of locks, described: safe at import time, shared by threads and tasks.

    It holds no token; each `acquire`, `with` or `async with` makes a fresh `Hold`.

    Several locks are acquired all at once or not at all: while it waits, the set holds none of
    them. Two sets never deadlock each other, whatever the order of their names. With more than
    one partition (REDIS_LOCKS["PARTITIONS"]), those of each are acquired so, one after another.

    Args:
        name: 1 to 512 bytes of UTF-8. Equal names on the same server are the same lock.
        *more: Names of further locks of the set, up to 1000 in all; a repeated name counts once.
        mode: "exclusive": alone. "shared": beside other shared holders, but no exclusive one.
            A waiting exclusive one is not overtaken by shared ones that come later.
        wait: Seconds to wait while somebody else holds it. 0: do not wait. None: for ever.
        lease: Seconds a hold lives unless renewed or extended; 0.01 to one year.
        renew: Whether a hold is renewed in the background while it is held.
        using: The server: a CACHES alias, a URL or a dotted path; None is REDIS_LOCKS["CONNECTION"].
        label: What the holder runs, for people; None is the command of this process.
        read: Redis commands that only read, such as ``[("HGET", "account:1", "money")]``. They
            travel with the acquire and run once the lock is held; `Hold.read` has the replies.
        scope: "auto": a hold taken inside ``atomic()`` is kept until that transaction, or the
            savepoint (a nested ``atomic()``) it is taken in, ends; in the same transaction the lock
            is taken once, as a row lock is. Any other hold ends with its block. "block": every hold does.
            "transaction": as "auto", but taking it outside a transaction raises. Async code has
            no transactions: its holds end with their block.
        database: The alias of the database whose transactions count.
        commit_guard: Whether a hold kept by a transaction is verified just before COMMIT. If it
            is lost, or its lease ends within a second (or a tenth of the lease, if that is
            less), the transaction is rolled back and LockLost raised.
        reentrant: Whether a thread or task that holds the lock may take it again: it gets a
            nested hold at once, with the same fencing token, and the last of them to be released releases the
            lock. Asking for "exclusive" inside "shared" upgrades the hold, until its end. If
            False, taking it again raises LockError at once. Other threads and tasks wait in any case, one that
            the holder started included.
        crash_release: Whether the lock is free within half a second of the end of the holder's process, however
            long its lease: whoever waits or comes sees that the process listens no more, four times a second.
            A holder that is cut off from Redis for a moment loses the lock as well, and is told. For exclusive locks on one
            server, not on a Cluster; the process keeps a connection for it.
        replicas: How many replicas have to acknowledge a grant before it counts, so that a fail-over to one of
            them does not lose it; and each extend, the background's too. 0: none. Acquiring takes up to a quarter
            of the lease longer (1 s at most), and raises NotReplicated, holding nothing, if they do not answer in
            that time. Not on a Cluster.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    _wait: float | Unset | None
    _blocks: OpenBlocks

    def __init__(
        self,
        name: str,
        *more: str,
        mode: Mode = "exclusive",
        wait: float | Unset | None = UNSET,
        lease: float | Unset = UNSET,
        renew: bool | Unset = UNSET,
        using: str | None = None,
        label: str | None = None,
        read: Iterable[Command] = (),
        scope: ScopeName = "auto",
        database: str = "default",
        commit_guard: bool = True,
        reentrant: bool = True,
        crash_release: bool = False,
        replicas: int | Unset = UNSET,
    ) -> None:
        self._set_names((name, *more))
        self._reads = packed_reads(read)
        hold = (wait, lease, renew, using, label)
        self._set_options(
            *hold, mode, scope, database, commit_guard, reentrant, crash_release, replicas
        )

    def _set_names(self, names: Iterable[object]) -> None:
        self._names, self._plan = validate_names(names), None
        self._name = self._names[0] if len(self._names) == 1 else ", ".join(self._names)

    def _set_options(self, *options: Any) -> None:
        """Take the options that `options.checked` takes. Raises TypeError, ValueError."""
        vars(self).update(checked(*options))
        self._blocks = OpenBlocks()

    @property
    def name(self) -> str:
        """The name of the lock; those of a set are joined with commas."""
        return self._name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the locks of the set."""
        return self._names

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def renamed(self, names: tuple[str, ...], label: str | None) -> Lock:
        """Return a lock that is described as this one, of other valid names, for one call of a function.

        It is not entered as a block.
        """
        lock = object.__new__(Lock)
        vars(lock).update(vars(self))
        lock._names = names
        lock._name = names[0] if len(names) == 1 else ", ".join(names)
        lock._label, lock._plan = label, None
        return lock

    def acquire(self, *, wait: float | Unset | None = UNSET) -> Hold | None:
        """Return a hold, or None if somebody else still held the lock after `wait` seconds.

        Blocks for up to `wait` seconds (0: not at all; None: for ever; not given: the
        lock's own). An interrupt leaves neither hold nor place in the queue behind.
        Inside a transaction the hold is kept until that ends, whether released before or not
        (see `scope`).

        Raises:
            DeadlockDetected: Waiting on would never have ended.
            LockError: It would have waited for what this thread holds itself; or the lease ended before its
                replicas knew of it.
            LockBackendError: Redis could not be asked. Nothing is held, or only until its lease ends.
            NotReplicated: Too few replicas acknowledged it (see `replicas`). Nothing is held.
        """
        outcome = self._acquire_blocking(self._effective_wait(wait))
        return outcome if isinstance(outcome, Hold) else None

    async def aacquire(self, *, wait: float | Unset | None = UNSET) -> Hold | None:
        """Return a hold, or None; like `acquire`, but suspends instead of blocking.

        Cancellation leaves neither hold nor place in the queue behind.
        """
        outcome = await self._acquire_async(self._effective_wait(wait))
        return outcome if isinstance(outcome, Hold) else None

    def hold(self, *, wait: float | Unset | None = UNSET) -> HoldContext:
        """Return a context manager for one `with` or `async with`; see `__enter__`."""
        return HoldContext(self, wait)

    def guard(self, hold: Hold, databases: Iterable[str]) -> None:
        """Verify `hold` of this lock before the open transactions of `databases` COMMIT.

        For transactions inside the block of the hold, unless `scope` or `commit_guard` opt out.
        """
        self._scope.guard(hold, databases)

    def __enter__(self) -> Hold:
        """Acquire, or raise.

        Raises:
            LockNotAvailable: Somebody else holds it, and the wait is 0.
            LockTimeout: Somebody else still held it after the wait.
            DeadlockDetected: Waiting on would never have ended.
            LockBackendError: Redis could not be asked.
        """
        wait = get_settings().wait if self._wait is UNSET else self._wait
        wait = bounded(wait) if bounds.get() else wait
        outcome = self._acquire_blocking(wait)
        if isinstance(outcome, Hold):
            return self._blocks.push(outcome)
        raise not_available(self._name, outcome, wait)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release. Raises LockLost if the hold was lost, unless the body raised already."""
        self._blocks.pop().__exit__(exc_type, exc, traceback)

    async def __aenter__(self) -> Hold:
        """Acquire, or raise; see `__enter__`."""
        seconds = self._effective_wait(UNSET)
        outcome = await self._acquire_async(seconds)
        if isinstance(outcome, Hold):
            return self._blocks.push(await outcome.__aenter__())
        raise not_available(self._name, outcome, seconds)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release; see `__exit__`."""
        await self._blocks.pop().__aexit__(exc_type, exc, traceback)

    def _enter(self, wait: float | Unset | None) -> Hold:
        seconds = self._effective_wait(wait)
        outcome = self._acquire_blocking(seconds)
        if isinstance(outcome, Hold):
            return outcome
        raise not_available(self._name, outcome, seconds)

    async def _aenter(self, wait: float | Unset | None) -> Hold:
        seconds = self._effective_wait(wait)
        outcome = await self._acquire_async(seconds)
        if isinstance(outcome, Hold):
            return outcome
        raise not_available(self._name, outcome, seconds)

    def _effective_wait(self, wait: float | Unset | None) -> float | None:
        if wait is not UNSET:
            return bounded(wait_seconds(wait))
        return bounded(get_settings().wait if self._wait is UNSET else self._wait)


class HoldContext:
    """One `with` or `async with` of a lock, from `Lock.hold`. Single use at a time."""

    __slots__ = ("_hold", "_lock", "_wait")

    def __init__(self, lock: Lock, wait: float | Unset | None) -> None:
        lock._effective_wait(wait)  # noqa: SLF001 - says now what is wrong with `wait`
        self._lock = lock
        self._wait = wait
        self._hold: Hold | None = None

    def _unused(self) -> Lock:
        if self._hold is not None:
            msg = (
                f"this hold of {self._lock.name!r} is in use; call Lock.hold() once for each block"
            )
            raise RuntimeError(msg)
        return self._lock

    def __enter__(self) -> Hold:
        self._hold = self._unused()._enter(self._wait)  # noqa: SLF001 - one class in two parts
        return self._hold

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.__exit__(None, exc, None)

    async def __aenter__(self) -> Hold:
        hold = await self._unused()._aenter(self._wait)  # noqa: SLF001 - as above
        self._hold = await hold.__aenter__()
        return self._hold

    async def __aexit__(
        self, exc_type: object, exc: BaseException | None, traceback: object
    ) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            await hold.__aexit__(None, exc, None)
