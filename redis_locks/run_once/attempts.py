"""`Attempt`: the hold of whoever is at a job, and the way to say how it went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from redis_locks.exceptions import LockNotHeld
from redis_locks.run_once.endings import HoldWithVerdict
from redis_locks.run_once.verdicts import Verdict

_current: ContextVar[Attempt] = ContextVar("redis_locks_attempt")


class Attempt(HoldWithVerdict):
    """One attempt at a job. A `Hold` that ends with a verdict: `done` or `fail`.

    Released without one, it counts as an attempt that died: another takes over at once.
    """

    __slots__ = ()

    @staticmethod
    def current() -> Attempt:
        """Return the attempt of the decorated function that runs here, in this thread or task.

        Raises:
            LockNotHeld: None does. A block has its attempt from ``as``.
        """
        try:
            return _current.get()
        except LookupError:
            msg = "no function decorated with run_once runs here; a block has its attempt from `as`"
            raise LockNotHeld(msg) from None

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Be what `current` returns."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def done(self, result: Any = None) -> None:
        """Record that the job is done, for `done_ttl` seconds, and release the lock.

        Blocks for a round trip. Leaving the attempt's block does the same, without a result.

        Args:
            result: What those get who ask later; JSON types. Only with `store_result=True`.

        Raises:
            LockLost: The lock was lost before: nothing was recorded, another attempt follows.
            LockNotHeld: The attempt is over, or belongs to another process.
            LockBackendError: Redis could not be told; whether it is recorded is not known.
            TypeError: JSON has no such type as `result`.
            ValueError: There is a result, and `store_result` is False; or it has NaN in it.
        """
        self.conclude(self._done(result))
        self.release()

    async def adone(self, result: Any = None) -> None:
        """Record that the job is done; see `done`. Cancellation does not keep it from that."""
        self.conclude(self._done(result))
        await self.arelease()

    def fail(self, error: BaseException | str) -> None:
        """Record that this attempt failed, and release the lock, so that another takes over.

        Blocks for a round trip. An exception that leaves the attempt's block does the same.

        Raises:
            LockLost: The lock was lost before: another attempt follows anyway.
            LockNotHeld: The attempt is over, or belongs to another process.
            LockBackendError: Redis could not be told; another attempt follows the lease.
        """
        self.conclude(Verdict.failed(error))
        self.release()

    async def afail(self, error: BaseException | str) -> None:
        """Record that this attempt failed; see `fail`."""
        self.conclude(Verdict.failed(error))
        await self.arelease()
