"""`Hold`: one possession of a lock, to check, extend, convert, commit, give away and release.

`Lock` makes holds; users, transactions and `adopt` end them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.connections.backends import Backend, backend_for
from redis_locks.drivers.base import Driver, Link, LinkBroken, run_blocking
from redis_locks.exceptions import LockBackendError, LockError, LockLost, LockNotHeld
from redis_locks.locks import commits
from redis_locks.locks.contention import not_available
from redis_locks.locks.timeouts import bounded
from redis_locks.locks.transfer import Detached
from redis_locks.protocol import acquire, replication, store
from redis_locks.protocol.acquire import Won
from redis_locks.protocol.cancellation import CancelledByLoss
from redis_locks.protocol.leases import FORCE_RELEASED, Lease, tell_lost, tell_moved, tell_released
from redis_locks.protocol.ownership import Tenure
from redis_locks.protocol.renewal.renewer import Renewer
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Adopted, Refused, Request, may_be_buried
from redis_locks.values import identity
from redis_locks.values.arguments import flag, optional_text
from redis_locks.values.durations import lease_ms, wait_seconds
from redis_locks.values.identity import new_session, new_token, note_unconfirmed, session, whoami

logger = logging.getLogger("redis_locks")

T = TypeVar("T")

LONGEST: Final = 60.0
"""Seconds after which nobody tries on, however long the lease."""


class Hold:
    """One possession of a lock. Single use; may be passed to and released by another thread."""

    __slots__ = ("_backend", "_cancelled", "_pid", "_released", "_tenure", "kept", "read")

    _cancelled: CancelledByLoss | None

    def __init__(self, backend: Backend, tenure: Tenure, read: Sequence[Any] = ()) -> None:
        self._backend = backend
        self._pid = identity.process.pid
        self._released = False
        self._tenure = tenure
        self.read = read
        """Replies to the commands that the lock was given to `read`: bytes, numbers, None, lists."""
        self.kept = False
        """Whether a transaction keeps this hold: its release takes effect when that has ended."""

    @property
    def _lease(self) -> Lease:
        return self._tenure.lease

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._lease.name

    @property
    def mode(self) -> str:
        """How the lock is held: "exclusive", "shared" or "permit:CAPACITY"."""
        return self._lease.mode

    @property
    def fencing_token(self) -> int:
        """A number above that of every earlier hold of this lock, for the resource to check."""
        return self._lease.fencing_token

    @property
    def token(self) -> str:
        """The random proof of this hold; nested holds share it.

        A hold that passed from another thread or task of this process starts with that one's, and gets its
        own when it has lasted for a while.
        """
        return self._lease.token

    @property
    def parts(self) -> Sequence[Hold]:
        """What is held on the server, each with a lease of its own: this, or a hold a partition."""
        return (self,)

    @property
    def is_lost(self) -> bool:
        """Whether the lease ended, or the hold was revoked, before it was released.

        Asks nobody: it compares clocks, so it is true the moment the lease ends, also after
        this process was stopped for a while. A forked child has lost its parent's hold.
        """
        lease = self._tenure.lease
        return (
            self._pid != identity.process.pid
            or lease.lost
            or (not self._released and lease.is_over())
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
        run_blocking(self._release_surely(self._backend.driver))

    async def arelease(self) -> None:
        """Release the lock; see `release`. Cancellation does not keep it from being released."""
        driver, _ = await self._backend.of_loop()
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
        try:
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
        self._cancelled = CancelledByLoss(part._tenure for part in self.parts)  # noqa: SLF001 - one class
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
        cancelled = self._cancelled
        self._cancelled = None
        await self.aleave(await cancelled.end(exc) if cancelled else exc)

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
            NotReplicated: Too few replicas acknowledged it, see `Lock`. The hold stays shared.
            TypeError: It is a permit of a semaphore, or of rows.
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
            LockError: Others are nested with this hold.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; it may be shared already.
            TypeError: It is a permit of a semaphore, or of rows.
        """
        run_blocking(self._downgrade(self._backend.driver))

    async def adowngrade(self) -> None:
        """Turn an exclusive hold into a shared one; see `downgrade`. Cancelled on its way, it is shared."""
        driver, _ = await self._backend.of_loop()
        await self._downgrade(driver)

    def commit(self, pipe: Any) -> None:
        """Apply the commands queued in a redis-py pipeline and release, in one step on the server.

        If this hold is lost, no command is applied: so data in the lock's own Redis is safe
        even from a holder that was stopped past its lease. One round trip. When a command fails,
        one that does not exist as well, the others are still applied. Their replies are not returned; `pipe` is
        emptied. On a cluster all keys must be in the lock's slot; see `key_beside`.

        Raises:
            LockLost: The hold is lost; nothing was applied.
            LockNotHeld: It was released, or is being ended by another thread, or belongs to another process.
            LockBackendError: Redis could not be asked; it may have been applied or not.
            redis.exceptions.ResponseError: A command failed; the lock is released.
            LockError: A transaction keeps the hold, or it has others nested with it; or a commit of other commands
                was begun, and nobody knows whether it was applied.
            TypeError: `pipe` is no pipeline.
            ValueError: `pipe` belongs to another server, database or cluster, watches keys, or has a
                command that cannot be part of a script, or is for another slot than the lock's.
        """
        run_blocking(self._commit(self._backend.driver, pipe))

    async def acommit(self, pipe: Any) -> None:
        """Apply the commands of a redis.asyncio pipeline and release; see `commit`."""
        driver, _ = await self._backend.of_loop()
        await self._commit(driver, pipe)

    def detach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away: return text from which `adopt` makes it again, once, anywhere.

        The lock stays held, by nobody's thread, for `lease` seconds (not given: the hold's own lease), or longer if
        its lease is longer already; then it is free, if nobody adopted it. This hold is
        released, as far as it goes. The text is signed with SECRET_KEY but can be read. Blocks for a round trip.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockError: A transaction keeps the hold, others are nested with it, its locks are in
                several partitions, or it is one with `crash_release`.
            LockBackendError: Redis could not be asked. It is still this hold, unless only the
                answers got lost: then this hold is found lost, and the lock is free with its lease.
            TypeError: `lease` is not a number, or it is a hold of rows.
            ValueError: `lease` is not between 0.01 and one year.
        """
        return run_blocking(self._detach(self._backend.driver, lease))

    async def adetach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away; see `detach`. Cancelled, it is still this hold."""
        driver, _ = await self._backend.of_loop()
        return await self._detach(driver, lease)

    @classmethod
    def adopt(
        cls,
        text: str,
        *,
        using: str | None = None,
        renew: bool | Unset = UNSET,
        label: str | None = None,
    ) -> Self:
        """Return the hold that `detach` gave away, now this thread's; its fencing token is the same.

        Nobody can take the lock in between. Blocks for a round trip. Interrupted, the hold either is still to be
        adopted or is released.

        Args:
            text: What `detach` returned.
            using: The server, as for the lock.
            renew: Whether it is renewed in the background; not given: REDIS_LOCKS["RENEW"].
            label: What the holder runs, for people; None is the command of this process.

        Raises:
            LockLost: It was adopted already, or its lease ended before.
            LockBackendError: Redis could not be asked.
            ValueError: `text` is not what `detach` returned, or was signed with another SECRET_KEY.
            TypeError: An argument has the wrong type.
        """
        detached, backend = _asked_for(text, using, renew, label)
        return run_blocking(
            cls._adopt(detached, backend, backend.driver, backend.renewer, renew, label, task=False)
        )

    @classmethod
    async def aadopt(
        cls,
        text: str,
        *,
        using: str | None = None,
        renew: bool | Unset = UNSET,
        label: str | None = None,
    ) -> Self:
        """Return the hold that `detach` gave away, now this task's; see `adopt`."""
        detached, backend = _asked_for(text, using, renew, label)
        driver, renewer = await backend.of_loop()
        return await cls._adopt(detached, backend, driver, renewer, renew, label, task=True)

    async def leave(self, error: BaseException | None) -> None:
        """Release at the end of a `with` block that ended with `error`."""
        if self._pid != identity.process.pid:
            return  # a child that leaves its parent's block: the hold is not ours to touch
        try:
            await self._release_surely(self._backend.driver)
        except LockError as ours:
            if error is None:
                raise
            self._note_beside(error, ours)

    async def aleave(self, error: BaseException | None) -> None:
        """Release at the end of an `async with` block that ended with `error`."""
        if self._pid != identity.process.pid:
            return
        try:
            await self.arelease()
        except LockError as ours:
            if error is None:
                raise
            self._note_beside(error, ours)

    def _note_beside(self, error: BaseException, ours: LockError) -> None:
        """Note ours with the error of the block, which wins."""
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
        until = min(lease.deadline, monotonic() + LONGEST)
        try:
            held, again = await persist(driver, self._end, until)
        except (LockBackendError, LinkBroken) as error:
            note_unconfirmed(lease.token)
            if was_lost:
                raise await self._told_lost(driver, lease) from None
            if isinstance(error, LinkBroken):
                raise self._unanswered(error) from error
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

    async def _upgrade(self, driver: Driver, wait: float | Unset | None) -> None:
        seconds = bounded(get_settings().wait if wait is UNSET else wait_seconds(wait))
        refused = await self.try_upgrade(driver, seconds)
        if refused is not None:
            raise not_available(self.name, refused, seconds)

    async def try_upgrade(self, driver: Driver, seconds: float | None) -> Refused | None:
        """Turn a shared hold into an exclusive one; return why it could not be, or None."""
        if self._stays("exclusive"):
            return None
        shared = self._lease
        mode = f"upgrade:{shared.token}"
        token = new_token(session(task=driver is not self._backend.driver))
        request = replace(shared.request, token=token, mode=mode, reads=())
        shared.upgrading = inf
        try:
            outcome = await acquire.acquire(
                driver, request, seconds, get_settings().deadlock_timeout
            )
            if isinstance(outcome, Refused):
                return outcome
            await self._become_exclusive(driver, request, outcome)
        except LockLost:
            shared.lost = True
            raise self._lost() from None
        finally:
            shared.upgrading = monotonic()
        return None

    async def _become_exclusive(self, driver: Driver, request: Request, won: Won) -> None:
        """Have the lease of an upgrade. Interrupted, or if too few replicas know of it, the hold is shared again."""
        tenure, shared = self._tenure, self._lease
        lease: Lease | None = None
        try:
            deadline = max(won.deadline, shared.deadline)  # the script never shortens it
            lease = Lease(request, deadline, won.fencing_token, name=shared.name, mode="exclusive")
            if request.replicas:
                await replication.confirm(driver, lease, won.read)
            # One hold goes on: it began once and ends once.
            lease.since, lease.untold = shared.since, shared.untold
            lease.on_lost = shared.on_lost
            lease.renews_if(shared.renews)
            shared.ended = True
            tenure.renewer.discard(shared)
            tenure.renewer.add(lease)
            tenure.lease = lease
        except BaseException:
            if lease is not None:
                lease.ended = True
                tenure.renewer.discard(lease)
            tenure.lease, shared.ended = shared, False
            await acquire.take_back(driver, request)
            tenure.renewer.add(shared)
            raise

    async def _downgrade(self, driver: Driver) -> None:
        if self._stays("shared"):
            return
        self._require_alone("downgrade()")
        await self._restate(driver)
        self._lease.leave_line()
        try:
            await self._become_shared(driver)
        except LockError:
            raise
        except BaseException:
            # It may have happened: do not go on as if it were exclusive.
            with suppress(LockError):
                await driver.finish(self._become_shared(driver))
            raise

    async def _become_shared(self, driver: Driver) -> None:
        lease = self._lease
        held, _ = await self._persist(
            driver, lambda link: store.downgrade(link, lease.keys, lease.token)
        )
        if not held:
            lease.lost = True
            raise self._lost()
        lease.mode = "shared"

    def _stays(self, mode: str) -> bool:
        """Return whether there is nothing to change; raise if it cannot be changed."""
        self._require_held()
        if self.is_lost:
            raise self._lost()
        self._require_no_rows()
        if self.mode not in {"exclusive", "shared"}:
            msg = "a permit of a semaphore is neither shared nor exclusive; acquire a Lock instead"
            raise TypeError(msg)
        return self.mode == mode

    async def _commit(self, driver: Driver, pipe: Any) -> None:
        tenure = self._tenure
        self._require_committable()
        queued = commits.queue_of(pipe)
        await commits.require(queued, driver, tenure.lease.keys)
        commands = commits.commands_of(queued)
        lease = tenure.lease
        if lease.is_over():
            raise self._lost()
        if lease.line is not None:
            await self._restate(driver)
            lease = tenure.lease
            # Before it is sent: once it may have been applied, the hold must not pass on.
            lease.leave_line()
        self._require_held()  # another thread may have released it meanwhile
        self._begin_commit(lease, commands)
        await self._apply(driver, lease, queued)

    async def _apply(self, driver: Driver, lease: Lease, queued: commits.Queued) -> None:
        """Run the lease's commands and end the hold, trying as long as the lease lasts, and tell it."""
        commands = lease.commands or ()
        failure, _ = await self._persist(
            driver, lambda link: store.commit(link, lease.keys, lease.token, commands)
        )
        if failure is None:
            lease.lost = True
            await tell_lost(driver, lease)
            raise self._lost()
        self._released = True
        self._tenure.leave(self)
        self._tenure.renewer.discard(lease)
        emptied = queued.empty()
        if emptied is not None:
            await emptied
        await tell_released(driver, lease)
        if failure:
            raise _command_failed(failure)

    def _begin_commit(self, lease: Lease, commands: commits.Commands) -> None:
        """Let the hold end with these commands, and no others, from now on."""
        if lease.commands is None:
            if not self._tenure.leave_alone(self):
                msg = (
                    f"The end of this hold of lock {self.name!r} has begun already, by another thread or by a release "
                    "that failed; acquire the lock again"
                )
                raise LockNotHeld(msg)
        elif lease.commands != commands:
            msg = (
                f"A commit of lock {self.name!r} was begun already, and may have been applied; commit the same commands "
                "again to be sure, or others with a new hold"
            )
            raise LockError(msg)
        # From here on a renewal that finds nothing is no loss.
        lease.ended, lease.commands = True, commands

    def _require_committable(self) -> None:
        self._require_held()
        if self.kept:
            msg = (
                f"Lock {self.name!r} is kept until its transaction ends; commit(pipe) would release "
                "it before: take it with scope='block', or send the commands by themselves"
            )
            raise LockError(msg)
        if self._tenure.is_shared:
            self._require_alone("commit(pipe)")

    async def _detach(self, driver: Driver, lease: float | Unset) -> str:
        self._require_movable()
        await self._restate(driver)
        held = self._lease
        milliseconds = held.lease_ms if lease is UNSET else lease_ms(lease)
        # A session of its own: nobody who waits is to be told that this thread is in the way.
        transit = replace(held.request, token=new_token(new_session()), lease_ms=milliseconds)
        held_ms = round((monotonic() - held.since) * 1000)
        travels = Detached(
            held.request.names,
            transit.token,
            self.mode,
            held.lease_ms,
            milliseconds,
            held.request.template,
            held.request.replicas,
            0,
            held_ms,
        )
        travels.text()  # what is wrong with the key is to show before anything has happened
        # From here on a renewal that finds nothing is no loss.
        held.ended = True
        try:
            moved = await self._move_out(driver, transit)
            text = travels._replace(at_ms=moved.at_ms).text()
            await tell_moved(driver, "detached", held)
        except BaseException:
            await driver.finish(self._move_back(driver, transit.token))
            raise
        self._released = True
        held.leave_line()
        self._tenure.leave(self)
        self._tenure.renewer.discard(held)
        return text

    def _require_movable(self) -> None:
        self._require_held()
        self._require_no_rows()
        self._require_alone("detach()")
        if self.kept:
            msg = f"Lock {self.name!r} is kept until its transaction ends; take it with scope='block' to detach it"
            raise LockError(msg)
        if may_be_buried(self._lease.request.who):
            msg = f"Lock {self.name!r} is to be released when its process ends (crash_release): it cannot be given away"
            raise LockError(msg)
        if self.is_lost:
            raise self._lost()

    async def _move_out(self, driver: Driver, transit: Request) -> Adopted:
        """Give this hold to `transit`, and let its replicas know. Raises LockLost if it was too late."""
        held = self._lease
        moved = await self._move(driver, held.token, transit)
        if moved is None:
            held.lost = True
        if moved is None or held.is_over():
            raise self._lost()
        if transit.replicas:
            on_its_way = Lease(transit, held.deadline, held.fencing_token)
            if not await replication.extend(driver, on_its_way, transit.lease_ms):
                raise self._lost()
        return moved

    async def _move(self, driver: Driver, token: str, heir: Request) -> Adopted | None:
        """Give the hold of `token` to `heir`; None if there is none."""
        moved, _ = await self._persist(driver, lambda link: store.adopt(link, heir, token))
        return moved

    async def _move_back(self, driver: Driver, token: str) -> None:
        """Be this hold again, after a detachment of which nobody knows whether it happened."""
        held = self._lease
        with suppress(LockBackendError):
            await self._move(driver, token, held.request)
        # Should it be lost, whoever renews finds that out.
        held.ended = False
        self._tenure.renewer.add(held)

    @classmethod
    async def _adopt(
        cls,
        detached: Detached,
        backend: Backend,
        driver: Driver,
        renewer: Renewer,
        renew: bool | Unset,  # noqa: FBT001 - as given
        label: str | None,
        *,
        task: bool,
    ) -> Self:
        own = session(task=task)
        request = Request(
            backend.keys(*detached.names),
            new_token(own),
            detached.lease_ms,
            detached.mode,
            whoami(label, task=task),
            names=detached.names,
            template=detached.template,
            replicas=detached.replicas,
        )
        if request.replicas:
            renewer = backend.patient(driver)
        renews = get_settings().renew if renew is UNSET else renew
        sent = monotonic()
        lease = Lease(request, sent + request.lease_ms / 1000, 0)
        lease.untold.clear()  # until there is something to tell the end of
        hold = cls(backend, Tenure(lease, renewer))
        hold._tenure.begin(hold)
        try:
            adopted = await hold._move(driver, detached.token, request)
            if adopted is not None:
                lease.fencing_token = adopted.fencing_token
                lease.renewed_until(sent + adopted.left_ms / 1000)
                if request.replicas:
                    await hold._extend(driver, request.lease_ms)
                # One hold goes on: its time before, and on the way, counts.
                lease.since -= (detached.held_ms + adopted.at_ms - detached.at_ms) / 1000
                lease.renews_if(renews)
                renewer.add(lease)
                if not renews:
                    note_unconfirmed(lease.token)
                hold._tenure.begin(hold, own.held, backend)
                lease.untold.append(True)
                await tell_moved(driver, "adopted", lease)
        except BaseException:
            await hold._give_back(driver)
            raise
        if adopted is None:
            lease.ended = True
            msg = (
                f"Lock {hold.name!r} cannot be adopted: it was adopted already, or its lease ended"
            )
            raise LockLost(msg)
        return hold

    async def _give_back(self, driver: Driver) -> None:
        """Release what an adoption, of which nobody knows whether it happened, may have got."""
        with suppress(LockError):
            await driver.finish(self._release(driver, repeated=True))

    async def _persist(
        self, driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]]
    ) -> tuple[T, bool]:
        """Run `action`, again on a new link if one breaks; return its reply and whether it ran again.

        It goes on until the lease ends, for then there is nothing left to save.
        """
        until = min(self._tenure.lease.deadline, monotonic() + LONGEST)
        try:
            return await persist(driver, action, until)
        except LinkBroken as error:
            raise self._unanswered(error) from error

    def _unanswered(self, error: LinkBroken) -> LockBackendError:
        return LockBackendError(
            f"{self._backend.description} does not answer ({error}); lock {self.name!r} ends with its lease"
        )

    async def _restate(self, driver: Driver) -> None:
        """Have Redis know a hold that passed to us inside this process as ours, if it does not yet.

        Raises LockLost, LockBackendError.
        """
        lease = self._lease
        own, token = lease.own, lease.token
        if own is None or not lease.restates():
            return
        if not lease.renews:
            own = replace(own, lease_ms=0)  # it ends when it would have
        sent = monotonic()
        adopted, _ = await self._persist(
            driver, lambda link: store.adopt(link, own, token, lease.fencing_token)
        )
        if adopted is None or lease.is_over():
            lease.lost = True
            raise self._lost()
        lease.restated()
        lease.renewed_until(sent + adopted.left_ms / 1000)
        self._tenure.renewer.add(lease)

    def _require_held(self) -> None:
        if self._pid != identity.process.pid:
            raise self._of_another_process()
        if self._released or self._tenure.lease.passed:
            msg = f"This hold of lock {self.name!r} was released already; acquire the lock again"
            raise LockNotHeld(msg)

    def _require_alone(self, verb: str) -> None:
        if self._tenure.is_shared:
            msg = (
                f"Lock {self.name!r} is held by nested blocks of this thread or task as well; "
                f"call {verb} when the inner ones have ended"
            )
            raise LockError(msg)

    def _require_no_rows(self) -> None:
        # One that is nested in a hold of rows is a plain one, but has its intents.
        if self._tenure.intents:
            self._refuse_rows()

    def _refuse_rows(self) -> NoReturn:
        msg = (
            "a hold of rows is neither upgraded, downgraded nor detached; lock them in the "
            "stronger mode at once, and where they are needed"
        )
        raise TypeError(msg)

    def _of_another_process(self) -> LockNotHeld:
        return LockNotHeld(
            f"The hold of lock {self.name!r} belongs to process {self._pid}, from which this one was forked"
        )

    def _lost(self) -> LockLost:
        why = "its lease ended or it was released by somebody else"
        if any(part._lease.revoked for part in self.parts):  # noqa: SLF001 - one class
            why = FORCE_RELEASED
        return LockLost(
            f"Lock {self.name!r} was lost: {why}. Do not rely on what was done since; "
            "use a longer lease, renewal, or the fencing token."
        )

    def __del__(self) -> None:
        # Without a default, a hold whose making was interrupted would complain about itself.
        released = getattr(self, "_released", True)
        if released or self._lease.ended:  # ended: a release was tried, and said what was wrong
            return
        if not self._tenure.includes(self):  # it never began: another thread had released the lock
            return
        if self._pid != identity.process.pid:
            return
        self._lease.leave_line()
        if not self._lease.is_over():
            if self._tenure.leave(self):
                self._lease.ended = True  # also if the warning keeps us from going away
                note_unconfirmed(self._lease.token)  # it is in nobody's way for long
            warnings.warn(
                f"A hold of lock {self.name!r} was dropped without release(); it ends with its lease",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


def _asked_for(
    text: str,
    using: str | None,
    renew: bool | Unset,  # noqa: FBT001 - as given
    label: str | None,
) -> tuple[Detached, Backend]:
    """Return what is to be adopted, and where; raises as `Hold.adopt` says."""
    optional_text(label, "label")
    if renew is not UNSET:
        flag(renew, "renew")
    backend = backend_for(using)
    return Detached.read(text), backend


def _command_failed(failure: str) -> Exception:
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis.exceptions import ResponseError

    return ResponseError(failure)
