"""`Hold`: one possession of a lock, to check, extend and release."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

from redis.exceptions import ResponseError

from redis_locks import store, waiting
from redis_locks.backends import Backend
from redis_locks.commits import queued_commands
from redis_locks.conf import UNSET, Unset, get_settings
from redis_locks.contention import not_available
from redis_locks.deadlines import bounded
from redis_locks.drivers.base import Driver, Link, LinkBroken, run_blocking
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.durations import lease_ms, wait_seconds
from redis_locks.exceptions import LockBackendError, LockError, LockLost, LockNotHeld
from redis_locks.identity import new_token, note_unconfirmed, process_id
from redis_locks.renewal import Lease, Renewer
from redis_locks.store import Refused, Request

logger = logging.getLogger("redis_locks")

T = TypeVar("T")

_TRIES = 5


class Hold:
    """One possession of a lock. Single use; may be passed to and released by another thread."""

    __slots__ = (
        "_backend",
        "_lease",
        "_pid",
        "_released",
        "_renewer",
        "_who",
        "fencing_token",
        "kept",
        "mode",
        "read",
    )

    def __init__(
        self,
        backend: Backend,
        lease: Lease,
        fencing_token: int,
        renewer: Renewer | None,
        *,
        mode: str = "exclusive",
        who: str = "",
        read: Sequence[Any] = (),
    ) -> None:
        self._backend = backend
        self._lease = lease
        self._pid = process_id()
        self._released = False
        self._renewer = renewer
        self.fencing_token = fencing_token
        """A number above that of every earlier hold of this lock, for the resource to check."""
        self.mode = mode
        """How the lock is held: "exclusive", "shared" or "permit:CAPACITY"."""
        self._who = who
        self.read = read
        """Replies to the commands that the lock was given to `read`: bytes, numbers, None, lists."""
        self.kept = False
        """Whether a transaction keeps this hold: its release takes effect when that has ended."""

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._lease.name

    @property
    def token(self) -> str:
        """The random proof of this hold."""
        return self._lease.token

    @property
    def is_lost(self) -> bool:
        """Whether the lease ended, or the hold was revoked, before it was released.

        Asks nobody: it compares clocks, so it is true the moment the lease ends, also after
        this process was stopped for a while. A forked child has lost its parent's hold.
        """
        return (
            self._pid != process_id()
            or self._lease.lost
            or (not self._released and self._lease.is_over())
        )

    @property
    def remaining(self) -> float:
        """Seconds until the lease ends unless renewed; 0 when released or lost."""
        if self._released or self.is_lost:
            return 0.0
        return max(0.0, self._lease.deadline - monotonic())

    def __repr__(self) -> str:
        state = (
            "released"
            if self._released
            else "lost"
            if self.is_lost
            else f"{self.remaining:.1f} s left"
        )
        return f"<Hold of {self.name!r}, {state}, fencing token {self.fencing_token}>"

    def check(self) -> None:
        """Return if the lock is still held; does no I/O.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
        """
        self._require_held()
        if self.is_lost:
            raise self._lost()

    def extend(self, seconds: float) -> None:
        """Make the lease last at least `seconds` from now; a longer one is left as it is.

        Raises:
            TypeError: `seconds` is not a number.
            ValueError: `seconds` is not between 0.01 and one year.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; the lease ends when it would have.
        """
        run_blocking(self._extend(self._backend.driver, lease_ms(seconds, argument="seconds")))

    async def aextend(self, seconds: float) -> None:
        """Make the lease last at least `seconds` from now; see `extend`."""
        milliseconds = lease_ms(seconds, argument="seconds")
        driver, _ = await self._backend.of_loop()
        await self._extend(driver, milliseconds)

    def release(self) -> None:
        """Release the lock and hand it to the first waiter. Doing it again does nothing.

        A hold that a transaction keeps is released when the transaction has ended.

        Raises:
            LockLost: The hold was lost before.
            LockNotHeld: It belongs to another process (this one was forked from it).
            LockBackendError: Redis could not be told; the lock becomes free with the lease.
        """
        run_blocking(self._release_surely(self._backend.driver))

    async def arelease(self) -> None:
        """Release the lock; see `release`. Cancellation does not keep it from being released."""
        driver, _ = await self._backend.of_loop()
        await self._release_surely(driver)

    def upgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one, without letting go of it in between.

        Waits up to `wait` seconds (0: not at all; None: for ever; not given: REDIS_LOCKS["WAIT"])
        for the other shared holders to leave, before everyone in the queue. `fencing_token` and `token` change. An exclusive
        hold stays as it is.

        Raises:
            LockNotAvailable: Others share the lock, and the wait is 0. The hold stays shared.
            LockTimeout: Others still shared the lock after the wait. The hold stays shared.
            DeadlockDetected: Another shared holder upgrades as well. The hold stays shared.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; the lease ends when it would have.
            TypeError: It is a permit of a semaphore.
        """
        run_blocking(self._upgrade(self._backend.driver, wait))

    async def aupgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one; see `upgrade`. Cancelled, it stays shared."""
        driver, _ = await self._backend.of_loop()
        await self._upgrade(driver, wait)

    def downgrade(self) -> None:
        """Turn an exclusive hold into a shared one and let shared waiters in.

        A shared hold stays as it is.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; it may be shared already.
            TypeError: It is a permit of a semaphore.
        """
        run_blocking(self._downgrade(self._backend.driver))

    async def adowngrade(self) -> None:
        """Turn an exclusive hold into a shared one; see `downgrade`."""
        driver, _ = await self._backend.of_loop()
        await self._downgrade(driver)

    def commit(self, pipe: Any) -> None:
        """Apply the commands queued in a redis-py pipeline and release, in one step on the server.

        If this hold is lost, no command is applied: so data in the lock's own Redis is safe
        even from a holder that was stopped past its lease. One round trip. When a command fails,
        one that does not exist as well, the others are still applied. Their replies are not returned; `pipe` is
        emptied. On a Cluster all keys must be in the slot of the lock.

        Raises:
            LockLost: The hold is lost; nothing was applied.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; it may have been applied or not.
            redis.exceptions.ResponseError: A command failed; the lock is released.
            LockError: A transaction keeps the hold.
            TypeError: `pipe` is no pipeline.
            ValueError: `pipe` belongs to another server or database, watches keys, or has a
                command that cannot be part of a script.
        """
        run_blocking(self._commit(self._backend.driver, pipe))

    async def acommit(self, pipe: Any) -> None:
        """Apply the commands of a redis.asyncio pipeline and release; see `commit`."""
        driver, _ = await self._backend.of_loop()
        await self._commit(driver, pipe)

    async def leave(self, error: BaseException | None) -> None:
        """Release at the end of a `with` block that ended with `error`."""
        await self._leave(self._release_surely(self._backend.driver), error)

    async def aleave(self, error: BaseException | None) -> None:
        """Release at the end of an `async with` block that ended with `error`."""
        await self._leave(self.arelease(), error)

    async def _leave(
        self, releasing: Coroutine[Any, Any, None], error: BaseException | None
    ) -> None:
        if self._pid != process_id():
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
        lease = self._lease
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

    async def _upgrade(self, driver: Driver, wait: float | Unset | None) -> None:
        if self._stays("exclusive"):
            return
        seconds = bounded(get_settings().wait if wait is UNSET else wait_seconds(wait))
        shared = self._lease
        mode = f"upgrade:{shared.token}"
        token = new_token(task=not isinstance(driver, BlockingDriver))
        request = Request(shared.keys, token, shared.lease_ms, mode, self._who)
        shared.upgrading = True
        try:
            outcome = await waiting.acquire(
                driver, request, seconds, get_settings().deadlock_timeout
            )
        except LockLost:
            shared.lost = True
            raise self._lost() from None
        finally:
            shared.upgrading = False
        if isinstance(outcome, Refused):
            raise not_available(self.name, outcome, seconds)
        shared.ended = True
        self._lease = Lease(
            shared.name,
            shared.keys,
            request.token,
            shared.lease_ms,
            max(outcome.deadline, shared.deadline),  # the script never shortens it
        )
        if self._renewer is not None:
            self._renewer.discard(shared)
            self._renewer.add(self._lease)
        self.mode, self.fencing_token = "exclusive", outcome.fencing_token

    async def _downgrade(self, driver: Driver) -> None:
        if self._stays("shared"):
            return
        lease = self._lease
        held, _ = await self._persist(
            driver, lambda link: store.downgrade(link, lease.keys, lease.token)
        )
        if not held:
            lease.lost = True
            raise self._lost()
        self.mode = "shared"

    def _stays(self, mode: str) -> bool:
        """Return whether there is nothing to change; raise if it cannot be changed."""
        self._require_held()
        if self.is_lost:
            raise self._lost()
        if self.mode not in {"exclusive", "shared"}:
            msg = "a permit of a semaphore is neither shared nor exclusive; acquire a Lock instead"
            raise TypeError(msg)
        return self.mode == mode

    async def _commit(self, driver: Driver, pipe: Any) -> None:
        self._require_held()
        if self.kept:
            msg = (
                f"Lock {self.name!r} is kept until its transaction ends; commit(pipe) would release "
                "it before: take it with scope='block', or send the commands by themselves"
            )
            raise LockError(msg)
        commands = queued_commands(pipe, self._backend.description)
        if self.is_lost:
            raise self._lost()
        lease = self._lease
        # From here on a renewal that finds nothing is no loss.
        lease.ended = True
        failure, _ = await self._persist(
            driver, lambda link: store.commit(link, lease.keys, lease.token, commands)
        )
        if failure is None:
            lease.lost = True
            raise self._lost()
        self._released = True
        if self._renewer is not None:
            self._renewer.discard(lease)
        pipe.command_stack.clear()
        if failure:
            raise ResponseError(failure)

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
        if self._pid != process_id():
            raise self._of_another_process()
        lease = self._lease
        if self._released:
            return
        was_lost = lease.is_over()
        if self.kept:
            if was_lost:
                raise self._lost()
            return
        # After a commit or a release of which nobody knows whether it was applied.
        repeated = repeated or lease.ended
        lease.ended = True
        if self._renewer is not None:
            self._renewer.discard(lease)
        held, again = await self._ask_to_release(driver, was_lost=was_lost)
        self._released = True
        # A repeated release that finds nothing most likely is the one whose reply was lost.
        if was_lost or not (held or again or repeated):
            lease.lost = True
            raise self._lost()

    async def _ask_to_release(self, driver: Driver, *, was_lost: bool) -> tuple[bool, bool]:
        lease = self._lease
        try:
            return await self._persist(driver, self._end)
        except LockBackendError:
            note_unconfirmed(lease.token)
            if was_lost:
                raise self._lost() from None
            raise

    async def _end(self, link: Link) -> bool:
        """Run the script that ends the hold; False if the token did not hold the lock."""
        return await store.release(link, self._lease.keys, self._lease.token)

    async def _persist(
        self, driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]]
    ) -> tuple[T, bool]:
        """Run `action`, again on a new link if one breaks; return its reply and whether it ran again."""
        failure: LinkBroken | None = None
        for attempt in range(_TRIES):
            if attempt > 1:
                await driver.sleep(random.uniform(0.5, 1) * 0.01 * 2**attempt)  # noqa: S311 - jitter
            try:
                link = await driver.checkout()
                try:
                    return await action(link), failure is not None
                finally:
                    driver.checkin(link)
            except LinkBroken as error:
                failure = error
                driver.drop_idle()
                if attempt and self._lease.is_over():
                    break  # nothing left to save by trying on
        msg = f"{self._backend.description} does not answer ({failure}); lock {self.name!r} ends with its lease"
        raise LockBackendError(msg) from failure

    def _require_held(self) -> None:
        if self._pid != process_id():
            raise self._of_another_process()
        if self._released:
            msg = f"This hold of lock {self.name!r} was released already; acquire the lock again"
            raise LockNotHeld(msg)

    def _of_another_process(self) -> LockNotHeld:
        return LockNotHeld(
            f"The hold of lock {self.name!r} belongs to process {self._pid}, from which this one was forked"
        )

    def _lost(self) -> LockLost:
        return LockLost(
            f"Lock {self.name!r} was lost: its lease ended or it was released by somebody else. "
            "Do not rely on what was done since; use a longer lease, renewal, or the fencing token."
        )

    def __del__(self) -> None:
        # Without a default, a hold whose making was interrupted would complain about itself.
        released = getattr(self, "_released", True)
        if released or self._lease.ended:  # ended: a release was tried, and said what was wrong
            return
        if self._pid == process_id() and not self._lease.is_over():
            self._lease.ended = True  # also if the warning keeps us from going away
            note_unconfirmed(self._lease.token)  # it is in nobody's way for long
            warnings.warn(
                f"A hold of lock {self.name!r} was dropped without release(); it ends with its lease",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
