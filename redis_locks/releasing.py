"""Extend a hold and let go of it, surely and once."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, Self

from redis_locks import identity, replication, store
from redis_locks.cancelling import CancelledByLoss
from redis_locks.drivers.base import Driver, Link, run_blocking
from redis_locks.durations import lease_ms
from redis_locks.exceptions import LockBackendError, LockError, LockLost
from redis_locks.identity import note_unconfirmed
from redis_locks.leases import Lease, tell_lost, tell_released
from redis_locks.prompt import Prompt

logger = logging.getLogger("redis_locks")


class Releasable(Prompt):
    """A hold with a lease that can be extended, and an end."""

    __slots__ = ("_cancelled",)

    _cancelled: CancelledByLoss | None

    def extend(self, seconds: float) -> None:
        """Make the lease last at least `seconds` from now; a longer one is left as it is.

        Raises:
            TypeError: `seconds` is not a number.
            ValueError: `seconds` is not between 0.01 and one year.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; the lease ends when it would have. So it does
                with NotReplicated, for a lock with `replicas`: too few of them acknowledged it.
        """
        run_blocking(self._extend(self._backend.driver, lease_ms(seconds, argument="seconds")))

    async def aextend(self, seconds: float) -> None:
        """Make the lease last at least `seconds` from now; see `extend`."""
        milliseconds = lease_ms(seconds, argument="seconds")
        driver, _ = await self._backend.of_loop()
        await self._extend(driver, milliseconds)

    def release(self) -> None:
        """Release the lock and hand it to the first waiter. Doing it again does nothing.

        Of nested holds the last one to be released, the outermost as a rule, releases the lock. A hold that a transaction keeps is released when the transaction has ended.

        Raises:
            LockLost: The hold was lost before.
            LockNotHeld: It belongs to another process (this one was forked from it).
            LockBackendError: Redis could not be told; the lock becomes free with the lease.
        """
        try:
            if self._release_promptly():
                return
        except BaseException:
            # Interrupted: it may have been released or not.
            with suppress(LockError):
                run_blocking(self._release(self._backend.driver, repeated=True))
            raise
        run_blocking(self._release_surely(self._backend.driver))

    async def arelease(self) -> None:
        """Release the lock; see `release`. Cancellation does not keep it from being released."""
        driver, _ = await self._backend.of_loop()
        try:
            if await self._arelease_promptly(driver):
                return
        except BaseException:
            # Cancelled: it may have been released or not.
            with suppress(LockError):
                await driver.finish(self._release(driver, repeated=True))
            raise
        await self._release_surely(driver)

    def __enter__(self) -> Self:
        """This hold: as a block, one that is acquired, or adopted, already."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release. Raises LockLost if the hold was lost, unless the body raised already."""
        if self._released and self._simple:
            return
        try:
            if not self._release_promptly():
                run_blocking(self.leave(exc))
        except LockError:
            raise
        except BaseException:
            # Interrupted, perhaps before the release had begun.
            with suppress(LockError):
                self.release()
            raise

    async def __aenter__(self) -> Self:
        """This hold; see `__enter__`. If it is lost inside the block, the task is cancelled there.

        Raises LockLost, in place of running the block, if it is lost already.
        """
        self._cancelled = CancelledByLoss(part._tenure for part in self.parts)  # noqa: SLF001
        if self.is_lost:  # after that, so that no loss comes in between
            await self.__aexit__(None, None, None)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release; see `__exit__`. A cancellation for the loss of the hold becomes LockLost."""
        cancelled, self._cancelled = self._cancelled, None
        await self.aleave(await cancelled.end(exc) if cancelled else exc)

    async def leave(self, error: BaseException | None) -> None:
        """Release at the end of a `with` block that ended with `error`."""
        await self._leave(self._release_surely(self._backend.driver), error)

    async def aleave(self, error: BaseException | None) -> None:
        """Release at the end of an `async with` block that ended with `error`."""
        await self._leave(self.arelease(), error)

    async def _leave(
        self, releasing: Coroutine[Any, Any, None], error: BaseException | None
    ) -> None:
        if self._pid != identity.process.pid:
            # A child that leaves its parent's block: the hold is not ours to touch.
            releasing.close()
            return
        try:
            await releasing
        except LockError as ours:
            if error is None:
                raise
            # The body's error always wins; ours must not be forgotten over it.
            error.add_note(f"redis_locks: {ours}")
            logger.warning("%s (the block had raised %s already)", ours, type(error).__name__)

    async def _extend(self, driver: Driver, milliseconds: int) -> None:
        self._require_held()
        if self.is_lost:
            raise self._lost()
        await self._restate(driver)
        lease = self._lease
        if lease.request.replicas:
            if not await replication.extend(driver, lease, milliseconds):
                raise self._lost()
            return
        sent = monotonic()
        left, _ = await self._persist(
            driver,
            lambda link: store.extend(link, lease.script, lease.keys, lease.token, milliseconds),
        )
        if left is None:
            lease.lost = True
            raise self._lost()
        if lease.is_over():
            raise self._lost()  # longer on the server, but the answer came too late
        lease.deadline = max(lease.deadline, sent + left / 1000)

    async def _release_surely(self, driver: Driver) -> None:
        """Release; once more if an interrupt or a cancellation leaves it open whether it happened."""
        try:
            await self._release(driver)
        except LockError:
            raise
        except BaseException:
            with suppress(LockError):
                await driver.finish(self._release(driver, repeated=True))
            raise

    async def _release(self, driver: Driver, *, repeated: bool = False) -> None:
        if self._pid != identity.process.pid:
            raise self._of_another_process()
        if self._released:
            return
        tenure = self._tenure
        lease = tenure.lease
        # If it was asked before, it was good then, and may have been released then: only its reply came too late.
        was_lost = lease.lost if lease.ended else lease.is_over()
        if self.kept or not tenure.leave(self):
            # A transaction, or others of this thread or task, hold it still.
            self._released = not self.kept
            if was_lost:
                raise await self._told_lost(driver, lease)
            return
        # After a commit or a release of which nobody knows whether it was applied.
        repeated = repeated or lease.ended
        lease.ended = True
        if lease.line is not None and lease.line.leave(lease, lost=was_lost):
            self._released = True
            await tell_released(driver, lease)
            return
        tenure.renewer.discard(lease)
        known = await self._ask_to_release(driver, lease, was_lost=was_lost)
        if self._released:
            return  # by another task or thread meanwhile, which told what came of it
        self._released = True
        # A repeated release that finds nothing most likely is the one whose reply was lost.
        if was_lost or not (known or repeated):
            lease.lost = True
            raise await self._told_lost(driver, lease)
        await tell_released(driver, lease)

    async def _ask_to_release(self, driver: Driver, lease: Lease, *, was_lost: bool) -> bool:
        """Return whether Redis knew the hold, or may have known it when it was asked first."""
        try:
            held, again = await self._persist(driver, self._end)
        except LockBackendError:
            note_unconfirmed(lease.token)
            if was_lost:
                raise await self._told_lost(driver, lease) from None
            raise
        return held or again

    async def _told_lost(self, driver: Driver, lease: Lease) -> LockLost:
        """Tell that the hold is lost, and return what to raise."""
        await tell_lost(driver, lease)
        return self._lost()

    async def _end(self, link: Link) -> bool:
        """Run the script that ends the hold; False if the token did not hold the lock."""
        lease = self._tenure.lease
        own = lease.own  # before the token: see `Lease.restated`
        released = await store.release(link, lease.keys, lease.token)
        if not released and own is not None:
            # It passed to us, and Redis may have learnt that meanwhile.
            released = await store.release(link, lease.keys, own.token)
        return released
