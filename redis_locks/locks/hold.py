"""`Hold`: one possession of a lock.

`Lock` makes holds; users, transactions and `adopt` end them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Literal, NoReturn, Self

from django.core.exceptions import SynchronousOnlyOperation

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Driver, Link, run_blocking
from redis_locks.exceptions import LockBackendError, LockError
from redis_locks.locks import commits, conversions, moves, releases
from redis_locks.locks.contention import not_available
from redis_locks.locks.entries import begin, begin_async
from redis_locks.locks.hold_errors import (
    lost,
    of_another_process,
    require_alone,
    require_detachable,
    require_held,
    require_own,
)
from redis_locks.locks.releases import Begun, here_of
from redis_locks.locks.timeouts import bounded
from redis_locks.locks.with_blocks import (
    Block,
    async_block_exit,
    block_entered,
    block_exit,
    refuse_in_loop,
)
from redis_locks.protocol import replication, store
from redis_locks.protocol.callers import new_token, note_unconfirmed, session
from redis_locks.protocol.lease import (
    ASKING,
    ENDED,
    HELD,
    LOST,
    NO,
    NOT_KNOWN,
    UNGUARDED,
    YES,
    Answer,
    CancelledByLoss,
    Lease,
    Outage,
    tell_counted_end,
    tell_end,
)
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Refused
from redis_locks.values import identity
from redis_locks.values.durations import lease_ms, wait_seconds

logger = logging.getLogger("redis_locks")


class Hold:
    """One possession of a lock. Single use. Another thread or task may release it.

    A hold that was acquired by hand is found by no other acquire, until `with hold:` or `async with
    hold:` begins a block. So it may be passed on: to another thread, which writes ``with hold:``,
    or by `detach`.
    """

    # What nearly all holds have in common is set on the class, which is faster.

    read: Sequence[Any] = ()
    """Replies to the commands that the lock was given to `read`: bytes, numbers, None, lists."""
    kept = False
    """Whether a transaction keeps this hold: its release takes effect when that has ended."""
    released = False
    """Whether it has ended, as far as its user goes."""
    ends_plainly = True
    """Whether nothing is written with its end."""
    last_moment = 0.0
    """Until when its caller waits for its end, on the monotonic clock; 0: for RELEASE_TIMEOUT. Then
    the background goes on.
    """
    stays_closed = True
    """Whether somebody has worked under it, so that `at_least` counts; see `Lock`."""
    called_block: Block | None = None
    cancelled: CancelledByLoss | None = None
    upgrade_token: str | None = None
    """The token that the lease gets by the latest upgrade of this hold."""

    def __init__(self, backend: Backend, lease: Lease) -> None:
        self.backend = backend
        self.lease = lease
        """The lease, which nested holds share."""
        self.pid = identity.process.pid
        self.releaser: dict[Literal["first"], Any] = {}
        """The thread or task that releases it, which the others let do that."""

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self.lease.name

    @property
    def mode(self) -> str:
        """How the lock is held: "exclusive", "shared" or "permit:CAPACITY"."""
        return self.lease.mode

    @property
    def fencing_token(self) -> int:
        """A number above that of every earlier hold of this lock, for the resource to check."""
        return self.lease.fencing_token

    @property
    def token(self) -> str:
        """The random proof of this hold; nested holds share it."""
        return self.lease.token

    @property
    def parts(self) -> Sequence[Hold]:
        """What is held on the server, each with a lease of its own: this, or a hold a partition."""
        return (self,)

    @property
    def is_lost(self) -> bool:
        """Whether the lease ended, or the hold was revoked, before it was released.

        Does no I/O: it compares clocks. So it is true the moment the lease ends, also after
        this process was stopped for a while. A forked child has lost its parent's hold.
        """
        lease = self.lease
        return (
            self.pid != identity.process.pid
            or lease.state is LOST
            or (not self.released and (lease.is_over() or monotonic() >= lease.deadline))
        )

    @property
    def is_open(self) -> bool:
        """Whether it has yet to be released, though it may be lost."""
        return not self.released and self.lease.is_open

    @property
    def is_unguarded(self) -> bool:
        """Whether the block runs without the lock, as Redis could not be asked.

        Its `fencing_token` is 0, below that of any real hold. It cannot be lost. To extend it does
        nothing, and it has neither `commit` nor `detach`. See `on_unavailable` of `Lock`.
        """
        return self.lease.is_unguarded

    @property
    def is_unverified(self) -> bool:
        """Whether COMMIT could not verify the hold, and went on; see `on_unavailable` of `Lock`."""
        return any(part.lease.outage is Outage.UNVERIFIED for part in self.parts)

    @property
    def remaining(self) -> float:
        """Seconds until the lease ends unless renewed; 0 when released or lost."""
        if self.released or self.is_lost:
            return 0.0
        return max(0.0, self.lease.deadline - monotonic())

    def __repr__(self) -> str:
        state = (
            "released"
            if self.released
            else "lost"
            if self.is_lost
            else "unguarded"
            if self.is_unguarded
            else f"{self.remaining:.1f} s left"
        )
        return f"<Hold of {self.name!r}, {state}, fencing token {self.fencing_token}>"

    def check(self) -> None:
        """Return if the lock is still held; does no I/O.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
        """
        require_held(self)
        if self.is_lost:
            raise lost(*[part.lease for part in self.parts])

    def extend(self, seconds: float) -> None:
        """Make the lease last at least `seconds` from now; a longer one is left as it is.

        Raises:
            TypeError: `seconds` is not a number.
            ValueError: `seconds` is not between 0.01 and one year.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; the lease ends when it would have. So it
                does with NotReplicated, for a lock with `replicas`: too few of them acknowledged
                it.
        """
        run_blocking(self.extend_on(self.backend.driver, lease_ms(seconds, argument="seconds")))

    async def aextend(self, seconds: float) -> None:
        """Make the lease last at least `seconds` from now; see `extend`."""
        milliseconds = lease_ms(seconds, argument="seconds")
        driver, _ = self.backend.of_loop()
        await self.extend_on(driver, milliseconds)

    def release(self) -> None:
        """Release the lock and hand it to the first waiter. Doing it again does nothing.

        Of nested holds the last one to be released, the outermost as a rule, releases the lock. A
        hold that a transaction keeps is released when the transaction has ended.

        Raises:
            LockLost: The hold was lost before.
            LockNotHeld: It belongs to another process (this one was forked from it).
            LockBackendError: Redis could not be told; the lock becomes free with the lease.
        """
        try:
            left = begin_end(self, self.backend.driver)
            if left is not None:
                run_blocking(left)
        except BaseException:
            releases.stop_releasing(self.releaser, here_of(self.backend.driver))
            raise

    async def arelease(self) -> None:
        """Release the lock; see `release`. Cancellation does not keep it from being released."""
        driver, _ = self.backend.of_loop()
        left = begin_end(self, driver)
        if left is not None:
            await left

    def __enter__(self) -> Self:
        """This hold: as a block, one that is acquired, or adopted, already.

        It is this thread's from now on.

        Raises:
            LockNotHeld: It was released already, or belongs to another process.
            LockError: Another block has the hold, or a block elsewhere has one it is nested with.
            SynchronousOnlyOperation: An event loop runs in this thread. The hold is released.
        """
        try:
            block = block_entered(self)
        except SynchronousOnlyOperation as error:
            self.end_block(error)
            raise
        begin(self, block)
        return self

    @block_exit
    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        """Release. Raises LockLost if the hold was lost, unless the body raised already."""
        self.end_block(exc)

    def end_block(self, error: BaseException | None) -> None:
        """Release at the end of a block, which ended with `error`; see `__exit__`."""
        try:
            left = begin_end(self, self.backend.driver, error)
            if left is not None:
                run_blocking(left)
        except LockError:
            raise
        except BaseException:
            # Interrupted, perhaps before the release had begun.
            with suppress(LockError):
                self.release()
            raise

    def __aenter__(self) -> Coroutine[Any, Any, Self]:
        """This hold; see `__enter__`. If it is lost inside the block, the task is cancelled there.

        Raises LockLost, in place of running the block, if it is lost already, and LockNotHeld if it
        was released.
        """
        return begin_async(self, block_entered(self, is_async=True))

    @async_block_exit
    async def __aexit__(
        self, exc_type: object, exc: BaseException | None, traceback: object
    ) -> None:
        """Release; see `__exit__`. A cancellation for the loss of the hold becomes LockLost."""
        await self.aend_block(exc)

    async def aend_block(self, exc: BaseException | None) -> None:
        """Release, in whatever task, as an async block ends with `exc`; see `__aexit__`."""
        cancelled, self.cancelled, error = self.cancelled, None, exc
        if cancelled is not None and cancelled.end():
            error = await cancelled.take_back(exc)
        driver, _ = self.backend.of_loop()
        left = begin_end(self, driver, error)
        if left is not None:
            await left
        if error is not exc:
            # The block has ended the hold itself, and was cancelled for its loss as it did.
            raise lost(*[part.lease for part in self.parts]) from None

    def upgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one, without letting go of it in between.

        Waits up to `wait` seconds (0: not at all; None: for ever; not given: REDIS_LOCKS["WAIT"])
        for the other shared holders to leave, before everyone in the queue. `fencing_token` and
        `token` change. An exclusive hold stays as it is.

        Raises:
            LockNotAvailable: Others share the lock, and the wait is 0. The hold stays shared.
            LockTimeout: Others still shared the lock after the wait. The hold stays shared.
            DeadlockDetected: Another shared holder upgrades as well. The hold stays shared.
            LockError: Another thread or task upgrades this hold already. Or a block around this
                code shares one of the locks by a hold of its own.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; the lease ends when it would have.
            NotReplicated: Too few replicas acknowledged it, see `Lock`. The hold stays shared.
            TypeError: It is a permit of a semaphore, or of rows.
        """
        refuse_in_loop("upgrade()", "Await aupgrade()")
        run_blocking(upgrade(self, self.backend.driver, wait))

    async def aupgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one; see `upgrade`. Cancelled, it stays shared."""
        driver, _ = self.backend.of_loop()
        await upgrade(self, driver, wait)

    def downgrade(self) -> None:
        """Turn an exclusive hold into a shared one and let shared waiters in.

        A shared hold stays as it is.

        Raises:
            LockError: Others are nested with this hold.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked. It counts as shared from now on, though
                others may have to wait still: downgrade again.
            TypeError: It is a permit of a semaphore, or of rows.
        """
        run_blocking(self.downgrade_on(self.backend.driver))

    async def adowngrade(self) -> None:
        """Turn an exclusive hold into a shared one; see `downgrade`.

        Cancelled on its way, it is shared.
        """
        driver, _ = self.backend.of_loop()
        await self.downgrade_on(driver)

    def commit(self, pipe: Any) -> None:
        """Apply commands and release, in one step on the server.

        They are plain ones, such as ``[("HINCRBY", "account:1", "money", -5)]``, or those that are
        queued in a pipeline of redis-py. What is wrong with them is raised before anything is sent.

        If this hold is lost, no command is applied. So data in the lock's own Redis is safe even
        from a holder that was stopped past its lease. One round trip. When a command fails, one
        that does not exist as well, the others are still applied. Their replies are not returned; a
        pipeline is emptied. On a cluster all keys must be in the lock's slot; see `key_beside`.

        Raises:
            LockLost: The hold is lost; nothing was applied.
            LockNotHeld: It was released, or is being ended by another thread, or belongs to another
                process.
            LockBackendError: Redis could not be asked; it may have been applied or not. Within a
                minute, the same commit again finds that out, even if the lease has ended.
            redis.exceptions.ResponseError: A command failed; the lock is released.
            LockError: A transaction keeps the hold, or it has others nested with it, or it is being
                upgraded; or a commit of other commands was begun, and nobody knows whether it was
                applied.
            TypeError: `pipe` is neither a pipeline nor commands, or a word is no string, bytes or
                number.
            ValueError: `pipe` belongs to another server, database or cluster, or it watches keys.
                Or a command cannot be part of a script, or is for another slot than the lock's.
        """
        run_blocking(self.commit_on(self.backend.driver, pipe))

    async def acommit(self, pipe: Any) -> None:
        """Apply commands, or those of a pipeline of redis.asyncio, and release; see `commit`."""
        driver, _ = self.backend.of_loop()
        await self.commit_on(driver, pipe)

    def detach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away: return text from which `adopt` makes it again, once, anywhere.

        The lock stays held for `lease` seconds, though no thread has it; not given: for the hold's
        own lease. If its lease lasts longer already, it keeps that. Then the lock is free, unless
        the hold was adopted. This hold ends. The text is signed with SECRET_KEY, but it can be
        read. Blocks for a round trip.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockError: A transaction keeps the hold, others are nested with it, or it is being
                upgraded. Or its locks are in several partitions, or it is one with `crash_release`.
            LockBackendError: Redis could not be asked. It is still this hold, unless only the
                answers got lost: then this hold is found lost, and the lock is free with its lease.
            TypeError: `lease` is not a number, or it is a hold of rows.
            ValueError: `lease` is not between 0.01 and one year.
        """
        return run_blocking(self.detach_on(self.backend.driver, lease))

    async def adetach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away; see `detach`. Cancelled, it is still this hold."""
        driver, _ = self.backend.of_loop()
        return await self.detach_on(driver, lease)

    @classmethod
    def adopt(
        cls,
        text: str,
        *,
        using: str | None = None,
        renew: bool | Unset = UNSET,
        label: str | None = None,
    ) -> Self:
        """Return the hold that `detach` gave away, now this thread's, with the same fencing token.

        Nobody can take the lock in between. Blocks for a round trip. Interrupted, the hold either
        is still to be adopted or is released.

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
        detached, backend = moves.asked_for(text, using, renew, label)
        return run_blocking(
            moves.adopted(cls, detached, backend, backend.driver, backend.renewer, renew, label)
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
        detached, backend = moves.asked_for(text, using, renew, label)
        return await moves.adopted(cls, detached, backend, *backend.of_loop(), renew, label)

    async def end(
        self, driver: Driver, error: BaseException | Unset | None = UNSET, begun: Begun = None
    ) -> None:
        """Release; again if an interrupt or a cancellation leaves it open whether that happened.

        While another thread or task releases the hold, do nothing: that one tells what comes of it.
        `error` is what the block ended with that ends now, if there is a block. It wins over our
        own error. `begun`: see `begin_end`.
        """
        if self.pid != identity.process.pid:
            if error is UNSET:
                raise of_another_process(self.name)
            return  # a child that leaves its parent's block: the hold is not ours to touch
        # Of two requests the server grants the first, whosever that is; the other finds nothing, as
        # if all was lost. A thread or task is not its own rival: what it has begun, an interrupt
        # broke off.
        here, releaser = here_of(driver), self.releaser
        try:
            if releaser.setdefault("first", here) != here:
                return
            try:
                await self.release_on(driver, begun)
            except LockError as ours:
                if not isinstance(error, BaseException):
                    raise
                error.add_note(f"redis_locks: {ours}")
                logger.warning("%s (the block had raised %s already)", ours, type(error).__name__)
            except BaseException:
                with suppress(LockError):
                    await driver.finish(self.release_on(driver))
                raise
        finally:
            releases.stop_releasing(releaser, here)

    async def extend_on(self, driver: Driver, milliseconds: int) -> None:
        """Make the lease last so long from now at least; see `extend`."""
        self.check()
        if self.is_unguarded:
            return
        lease = self.lease
        if lease.request.replicas:
            if not await replication.extend(driver, lease, milliseconds):
                raise lost(lease)
            return
        sent = monotonic()
        left, _ = await persist(
            driver,
            lambda link: releases.by_any_token(
                lease,
                lambda token: store.extend(link, lease.script, lease.keys, token, milliseconds),
            ),
            lease.deadline,
            lock=lease.name,
        )
        if left is None:
            lease.lose(NOT_KNOWN)
        if lease.is_over():
            raise lost(lease)  # longer on the server, perhaps, but the answer came too late
        lease.extend(sent + (left or 0) / 1000)

    async def release_on(self, driver: Driver, begun: Begun = None) -> None:
        """Release, or go on with that: see `release` and `begin_end`."""
        if self.released:
            return
        lease, answer, was_held = self.lease, begun or NO, True
        # An interrupted release or commit may have been applied. The hold was good when that was
        # sent, so it is not lost: at most the reply came too late.
        repeated = begun is None and lease.state is ENDED
        was_lost = not (begun or repeated) and lease.is_over() and not lease.is_lost_in_outage
        # Else a transaction, or others of this thread or task, have it, or nobody had it.
        ends = begun is not None or (not self.kept and lease.leave(self))
        if ends and lease.outage is not UNGUARDED:
            last = self.last_moment or monotonic() + self.backend.release_timeout
            self.last_moment = self.last_moment if begun is None else 0.0  # each try has its own
            if not isinstance(answer, Answer | LockBackendError):
                answer = await lease.answer_to_end(driver, answer)
            if answer is not YES:
                was_held = await releases.end_for_good(
                    *(driver, lease, self.end_on, answer),
                    repeated=repeated,
                    was_lost=was_lost,
                    last=last,
                )
            if self.released:
                return  # by another task or thread meanwhile, which told what came of it
        self.released = not self.kept
        if was_lost or not was_held:
            lease.lose(NOT_KNOWN)
            await tell_end(driver, lease)
            raise lost(lease)
        if ends and lease.count_end():
            await tell_counted_end(driver, lease)

    async def end_on(self, link: Link) -> bool:
        """Run the script that ends the hold; False if the token did not hold the lock."""
        return await releases.end(link, self.lease, stays_closed=self.stays_closed)

    async def upgrade_on(self, driver: Driver, seconds: float | None) -> Refused | None:
        """Make it exclusive within `seconds`, as `upgrade` does; return why it could not be."""
        self.check()
        if conversions.stays(self.lease, "exclusive"):
            return None
        self.upgrade_token = new_token(session())
        return await conversions.upgrade(driver, self.lease, self.upgrade_token, seconds)

    async def downgrade_on(self, driver: Driver) -> None:
        """See `downgrade`."""
        self.check()
        if conversions.stays(self.lease, "shared"):
            return
        require_alone("downgrade()", self.lease)
        await conversions.share(driver, self.lease)

    async def commit_on(self, driver: Driver, pipe: Any) -> None:
        """See `commit`."""
        lease = self.lease
        fix = (
            "commit(pipe) would release it before: take it with scope='block', or send the "
            "commands by themselves"
        )
        require_held(self)
        require_own(self.lease, "commit(pipe)", fix if self.kept else "")
        if lease.is_shared:
            require_alone("commit(pipe)", lease)
        queued = commits.queue_of(pipe, in_cluster=self.backend.in_cluster)
        allowed = commits.require(queued, driver, lease.keys)
        if allowed is not None:
            await allowed
        commands = commits.packed(queued)
        if lease.is_over():
            raise lost(lease)
        require_held(self)  # another thread may have released it meanwhile
        failure = await commits.commit(driver, lease, self, commands)
        if failure is None:
            await tell_end(driver, lease)
            raise lost(lease)
        self.released = True
        emptied = queued.empty()
        if emptied is not None:
            await emptied
        if lease.count_end():
            await tell_counted_end(driver, lease)
        if failure:
            raise commits.command_failed(failure)

    async def detach_on(self, driver: Driver, lease: float | Unset) -> str:
        """See `detach`."""
        require_detachable(self)
        if not self.lease.is_settled:
            await conversions.share(driver, self.lease)
            require_detachable(self)  # still
        milliseconds = self.lease.lease_ms if lease is UNSET else lease_ms(lease)
        text = await moves.detach(driver, self.lease, self, milliseconds)
        self.released = True
        return text

    def drop(self) -> bool:
        """Leave the lock to its lease, as no code refers to the hold any more.

        Return whether it was still held.
        """
        lease = self.lease
        if self.released or not lease.is_open or self.pid != identity.process.pid:
            return False
        was_over = lease.is_over()
        if not lease.leave(self):
            self.released = True  # the holds that it was nested with go on
        elif not was_over:
            note_unconfirmed(lease.token)  # a dead end for waiters only until its lease ends
        return not was_over

    def leave_behind(self) -> None:
        """Have the background release the lock, as an interrupt kept its block from doing that."""
        lease = self.lease
        is_asking = lease.state is ASKING and self.pid == identity.process.pid
        if is_asking:
            lease.leave(self)
        elif not self.drop() or lease.is_open or lease.is_unguarded:
            return  # what it was nested with goes on
        self.released = True  # who still refers to it hears of that
        releases.end_in_background(self.backend.driver, lease, None if is_asking else self.end_on)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        msg = (
            f"A hold cannot be copied or pickled: lock {self.name!r} would be released twice. Pass "
            "the hold itself to other code of this process, and the text of detach() to another "
            "process"
        )
        raise TypeError(msg)

    def __del__(self) -> None:
        # One whose making was interrupted has no lease.
        if not self.released and "lease" in vars(self) and self.drop():
            warnings.warn(
                f"A hold of lock {self.name!r} was dropped without release(); it ends with its "
                "lease",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


def begin_end(
    hold: Hold, driver: Driver, error: BaseException | Unset | None = UNSET
) -> Coroutine[Any, Any, None] | None:
    """Release, the usual way: one question to one server ends it.

    Return None, or what to await for the rest; see `end`.
    """
    lease, began = hold.lease, monotonic()
    if (
        hold.kept
        or not hold.ends_plainly
        or not lease.plan.terms.ends_plainly
        or lease.outage is not None
        or began >= lease.deadline
        or hold.pid != identity.process.pid
    ):
        stays = hold.kept and hold.ends_plainly and not hold.is_lost
        return None if stays else hold.end(driver, error)
    if hold.released:
        return None
    begun: Begun = None
    here, releaser = here_of(driver), hold.releaser
    try:
        if releaser.setdefault("first", here) == here and lease.state is HELD:
            ends = lease.leave(hold)  # and still held: nobody else was first
            begun = lease.ask_to_end(driver) if ends else YES
            if begun is YES:
                hold.released = True
                releaser.clear()
                return tell_counted_end(driver, lease) if ends and lease.count_end() else None
            hold.last_moment = began + hold.backend.release_timeout
    except BaseException as interrupt:  # noqa: BLE001 - what is awaited raises it
        return releases.end_and_raise(driver, hold, interrupt)
    return hold.end(driver, error, begun)


async def upgrade(hold: Hold, driver: Driver, wait: float | Unset | None) -> None:
    """See `Hold.upgrade`."""
    seconds = bounded(get_settings().wait if wait is UNSET else wait_seconds(wait))
    refused = await hold.upgrade_on(driver, seconds)
    if refused is not None:
        raise not_available(hold.name, refused, seconds)
