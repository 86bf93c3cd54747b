"""`Hold`: one possession of a lock, to check, extend, convert, commit, give away and release.

`Lock` makes holds; users, transactions and `adopt` end them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from asyncio import _get_running_loop  # documented, and public in all but name
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import RLock, get_ident
from time import monotonic
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from django.core.exceptions import SynchronousOnlyOperation

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.connections.backends import Backend, backend_for
from redis_locks.drivers.base import Driver, Link, run_blocking
from redis_locks.exceptions import LockBackendError, LockError, LockLost, LockNotHeld
from redis_locks.locks import commits
from redis_locks.locks.contention import not_available
from redis_locks.locks.timeouts import bounded
from redis_locks.locks.transfer import Detached
from redis_locks.locks.with_blocks import (
    Block,
    async_block_exit,
    block_entered,
    block_exit,
    refuse_in_loop,
)
from redis_locks.protocol import acquire, replication, store
from redis_locks.protocol.lease import (
    BY_HAND,
    FORCE_RELEASED,
    NOT_KNOWN,
    STACK,
    CancelledByLoss,
    Lease,
    Renewer,
    State,
    Where,
    tell_end,
    tell_moved,
)
from redis_locks.protocol.plans import Plan, Terms
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Adopted, Refused, Request, Won, has_crash_release
from redis_locks.values import identity
from redis_locks.values.arguments import flag, optional_text
from redis_locks.values.bridges import waiting_for
from redis_locks.values.durations import lease_ms, wait_seconds
from redis_locks.values.identity import (
    new_session,
    new_token,
    note_unconfirmed,
    session,
)

logger = logging.getLogger("redis_locks")

_BETWEEN_MOVES = 0.01
"""Seconds to pause before a move that a fail-over forgot is repeated."""

T = TypeVar("T")
# Guards a few instructions; reentrant, for a signal's handler may come in between.
_mutex = RLock()


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603 - another thread of the parent may have had it
    _mutex = RLock()


os.register_at_fork(after_in_child=_after_fork)


def _here() -> Any:
    # Asked first because it is cheap: `current_task` raises where no loop runs.
    loop = _get_running_loop()
    return (None if loop is None else asyncio.current_task(loop)) or get_ident()


class Hold:
    """One possession of a lock. Single use. Another thread or task may release it.

    A hold that was acquired by hand is found by no other acquire, until `with hold:` or `async with hold:` begins a block.
    So it may be passed on: to another thread, which writes ``with hold:``, or by `detach`.
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
    _called_block: Block | None = None
    _cancelled: CancelledByLoss | None = None
    _releaser: Any = None
    """The thread or task that releases it now."""
    _upgrade: str | None = None
    """The token that the lease gets by the latest upgrade of this hold."""

    def __init__(self, backend: Backend, lease: Lease) -> None:
        self.backend = backend
        self.lease = lease
        """The lease, which nested holds share."""
        self._pid = identity.process.pid

    @classmethod
    def nested(
        cls, backend: Backend, lease: Lease, where: Where, block: Block | None = None
    ) -> Self | None:
        """Return one more hold of a lease, found in `where`, for `block`; None if it has just been released by another thread."""
        hold = cls(backend, lease)
        if block is not None:
            block.append(hold)
        if lease.join(hold, where):
            return hold
        hold.released = True
        return None

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
            self._pid != identity.process.pid
            or lease.state is State.LOST
            or (not self.released and (lease.is_over() or monotonic() >= lease.deadline))
        )

    @property
    def is_open(self) -> bool:
        """Whether it has yet to be released, though it may be lost."""
        return not self.released and self.lease.is_open

    @property
    def is_unguarded(self) -> bool:
        """Whether the block runs without the lock, as Redis could not be asked; see `on_unavailable` of `Lock`.

        Its `fencing_token` is 0, below that of any real hold. It cannot be lost. To extend it does nothing,
        and it has neither `commit` nor `detach`.
        """
        return self.lease.is_unguarded

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
        run_blocking(self.extend_on(self.backend.driver, lease_ms(seconds, argument="seconds")))

    async def aextend(self, seconds: float) -> None:
        """Make the lease last at least `seconds` from now; see `extend`."""
        milliseconds = lease_ms(seconds, argument="seconds")
        driver, _ = await self.backend.of_loop()
        await self.extend_on(driver, milliseconds)

    def release(self) -> None:
        """Release the lock and hand it to the first waiter. Doing it again does nothing.

        Of nested holds the last one to be released, the outermost as a rule, releases the lock. A hold that a transaction keeps is released when the transaction has ended.

        Raises:
            LockLost: The hold was lost before.
            LockNotHeld: It belongs to another process (this one was forked from it).
            LockBackendError: Redis could not be told; the lock becomes free with the lease.
        """
        run_blocking(self.end(self.backend.driver))

    async def arelease(self) -> None:
        """Release the lock; see `release`. Cancellation does not keep it from being released."""
        driver, _ = await self.backend.of_loop()
        await self.end(driver)

    def __enter__(self) -> Self:
        """This hold: as a block, one that is acquired, or adopted, already. It is this thread's from now on.

        Raises:
            LockNotHeld: It was released already, or belongs to another process.
            LockError: Another block has the hold, or one elsewhere has a hold that it is nested with.
            SynchronousOnlyOperation: An event loop runs in this thread. The hold is released.
        """
        try:
            block = block_entered(self)
        except SynchronousOnlyOperation as error:
            self.end_block(error)
            raise
        self.be_in(block)
        block.append(self)
        return self

    def be_in(self, block: Block) -> None:
        """Let what runs inside `block` be nested in this hold, as `block` is to end it. Raises LockNotHeld, LockError."""
        self._require_held()
        if not block.has_exit:
            self._called_block = block  # to which nothing else refers
        its = session()
        held = its.held
        callers = waiting_for(its) if its.is_called else ()
        around = [(held, STACK), *((each.held, each.frames) for each in callers)]
        # What its transaction has stays where it is.
        where = BY_HAND if self.kept else block.where or held.stack
        for part in self.parts:
            if not part.lease.enter(part, where, around):
                msg = (
                    f"another block has this hold of lock {self.name!r}, or one that it is nested with, so two blocks would "
                    "be inside. Acquire the lock there, or hand on a hold that was acquired by hand, outside of blocks"
                )
                raise LockError(msg)
            if not (self.kept or part.lease.is_shared):  # else others have it, where they are
                part.lease.move_to(held)

    def leave_block(self) -> None:
        """Be a hold that was acquired by hand, in which nothing is nested; one that a transaction keeps stays its own."""
        if self.kept:
            return
        for part in self.parts:
            part.lease.place_in(part, BY_HAND)

    @block_exit
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release. Raises LockLost if the hold was lost, unless the body raised already."""
        self.end_block(exc)

    def end_block(self, error: BaseException | None) -> None:
        """Release at the end of a block, which ended with `error`; see `__exit__`."""
        try:
            run_blocking(self.end(self.backend.driver, error))
        except LockError:
            raise
        except BaseException:
            # Interrupted, perhaps before the release had begun.
            with suppress(LockError):
                self.release()
            raise

    def __aenter__(self) -> Coroutine[Any, Any, Self]:
        """This hold; see `__enter__`. If it is lost inside the block, the task is cancelled there.

        Raises LockLost, in place of running the block, if it is lost already, and LockNotHeld if it was released.
        """
        return self.begin_ablock(block_entered(self, is_async=True))

    async def begin_ablock(self, block: Block) -> Self:
        """Begin an async block; see `__aenter__`."""
        self.be_in(block)
        block.append(self)
        await self.watch_loss()
        return self

    async def watch_loss(self) -> None:
        """Let the running task be cancelled if the hold is lost before the block ends; see `__aenter__`."""
        self._cancelled = CancelledByLoss([part.lease for part in self.parts])
        if self.is_lost:  # after that, so that no loss comes in between
            await self.aend_block(None)

    @async_block_exit
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release; see `__exit__`. A cancellation for the loss of the hold becomes LockLost."""
        await self.aend_block(exc)

    async def aend_block(self, exc: BaseException | None) -> None:
        """Release at the end of an async block, which ended with `exc`, in whatever task; see `__aexit__`."""
        cancelled, self._cancelled = self._cancelled, None
        error = exc if cancelled is None else await cancelled.end(exc)
        driver, _ = await self.backend.of_loop()
        await self.end(driver, error)
        if error is not exc:
            # The block has ended the hold itself, and was cancelled for its loss as it did.
            raise self._lost() from None

    def upgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one, without letting go of it in between.

        Waits up to `wait` seconds (0: not at all; None: for ever; not given: REDIS_LOCKS["WAIT"])
        for the other shared holders to leave, before everyone in the queue. `fencing_token` and `token` change. An exclusive
        hold stays as it is.

        Raises:
            LockNotAvailable: Others share the lock, and the wait is 0. The hold stays shared.
            LockTimeout: Others still shared the lock after the wait. The hold stays shared.
            DeadlockDetected: Another shared holder upgrades as well. The hold stays shared.
            LockError: Another thread or task upgrades this hold already.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked; the lease ends when it would have.
            NotReplicated: Too few replicas acknowledged it, see `Lock`. The hold stays shared.
            TypeError: It is a permit of a semaphore, or of rows.
        """
        refuse_in_loop("upgrade()", "Await aupgrade()")
        run_blocking(self.upgrade_on(self.backend.driver, wait))

    async def aupgrade(self, *, wait: float | Unset | None = UNSET) -> None:
        """Turn a shared hold into an exclusive one; see `upgrade`. Cancelled, it stays shared."""
        driver, _ = await self.backend.of_loop()
        await self.upgrade_on(driver, wait)

    def downgrade(self) -> None:
        """Turn an exclusive hold into a shared one and let shared waiters in.

        A shared hold stays as it is.

        Raises:
            LockError: Others are nested with this hold.
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockBackendError: Redis could not be asked. It counts as shared from now on, though others may have to
                wait still: downgrade again.
            TypeError: It is a permit of a semaphore, or of rows.
        """
        run_blocking(self.downgrade_on(self.backend.driver))

    async def adowngrade(self) -> None:
        """Turn an exclusive hold into a shared one; see `downgrade`. Cancelled on its way, it is shared."""
        driver, _ = await self.backend.of_loop()
        await self.downgrade_on(driver)

    def commit(self, pipe: Any) -> None:
        """Apply commands and release, in one step on the server.

        They are plain ones, such as ``[("HINCRBY", "account:1", "money", -5)]``, or those that are queued in
        a pipeline of redis-py. What is wrong with them is raised before anything is sent.

        If this hold is lost, no command is applied. So data in the lock's own Redis is safe even from a holder that
        was stopped past its lease. One round trip. When a command fails, one that does not exist as well, the
        others are still applied. Their replies are not returned; a pipeline is emptied. On a cluster all keys must
        be in the lock's slot; see `key_beside`.

        Raises:
            LockLost: The hold is lost; nothing was applied.
            LockNotHeld: It was released, or is being ended by another thread, or belongs to another process.
            LockBackendError: Redis could not be asked; it may have been applied or not. Within a minute, the same
                commit again finds that out, even if the lease has ended.
            redis.exceptions.ResponseError: A command failed; the lock is released.
            LockError: A transaction keeps the hold, or it has others nested with it, or it is being upgraded; or a
                commit of other commands was begun, and nobody knows whether it was applied.
            TypeError: `pipe` is neither a pipeline nor commands, or a word is no string, bytes or number.
            ValueError: `pipe` belongs to another server, database or cluster, or it watches keys. Or
                a command cannot be part of a script, or is for another slot than the lock's.
        """
        run_blocking(self.commit_on(self.backend.driver, pipe))

    async def acommit(self, pipe: Any) -> None:
        """Apply commands, or those of a pipeline of redis.asyncio, and release; see `commit`."""
        driver, _ = await self.backend.of_loop()
        await self.commit_on(driver, pipe)

    def detach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away: return text from which `adopt` makes it again, once, anywhere.

        The lock stays held for `lease` seconds, though no thread has it; not given: for the hold's own lease. If
        its lease lasts longer already, it keeps that. Then the lock is free, unless the hold was adopted. This
        hold ends. The text is signed with SECRET_KEY, but it can be read. Blocks for a round trip.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
            LockError: A transaction keeps the hold, others are nested with it, or it is being upgraded. Or its locks
                are in several partitions, or it is one with `crash_release`.
            LockBackendError: Redis could not be asked. It is still this hold, unless only the
                answers got lost: then this hold is found lost, and the lock is free with its lease.
            TypeError: `lease` is not a number, or it is a hold of rows.
            ValueError: `lease` is not between 0.01 and one year.
        """
        return run_blocking(self.detach_on(self.backend.driver, lease))

    async def adetach(self, *, lease: float | Unset = UNSET) -> str:
        """Give the hold away; see `detach`. Cancelled, it is still this hold."""
        driver, _ = await self.backend.of_loop()
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
            cls._adopt(detached, backend, backend.driver, backend.renewer, renew, label)
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
        return await cls._adopt(detached, backend, driver, renewer, renew, label)

    async def end(self, driver: Driver, error: BaseException | Unset | None = UNSET) -> None:
        """Release; once more if an interrupt or a cancellation leaves it open whether that happened.

        While another thread or task releases the hold, do nothing: that one tells what comes of it.

        Args:
            driver: On what to ask.
            error: What the block ended with that ends now, if there is a block. It wins over our own error.
        """
        if self._pid != identity.process.pid:
            if error is UNSET:
                raise self._of_another_process()
            return  # a child that leaves its parent's block: the hold is not ours to touch
        here = _here() if driver.suspends else get_ident()
        try:
            # Of two requests the server grants the first, whosever that is; the other finds nothing, as if all was
            # lost. A thread or task is not its own rival: what it has begun, an interrupt broke off.
            with _mutex:
                if self._releaser not in (None, here):
                    return
                self._releaser = here
            await self.release_on(driver)
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
            if self._releaser == here:
                self._releaser = None

    async def extend_on(self, driver: Driver, milliseconds: int) -> None:
        """Make the lease last so long from now at least; see `extend`."""
        self.check()
        if self.is_unguarded:
            return
        lease = self.lease
        if lease.request.replicas:
            if not await replication.extend(driver, lease, milliseconds):
                raise self._lost()
            return
        sent = monotonic()
        left, _ = await persist(
            driver,
            lambda link: self._by_any_token(
                lambda token: store.extend(link, lease.script, lease.keys, token, milliseconds)
            ),
            lease.deadline,
            lock=lease.name,
        )
        if left is None:
            lease.lose(NOT_KNOWN)
        if lease.is_over():
            raise self._lost()  # longer on the server, perhaps, but the answer came too late
        lease.extend(sent + (left or 0) / 1000)

    async def release_on(self, driver: Driver) -> None:
        """Release; see `release`."""
        if self.released:
            return
        lease = self.lease
        # An interrupted release or commit may have been applied. The hold was good when that was sent, so it is
        # not lost: at most the reply came too late.
        repeated = lease.state is State.ENDED
        was_lost = not repeated and lease.is_over()
        lasts = self.kept or not lease.leave(self)
        known: bool | None = True
        # Else a transaction, or others of this thread or task, have it, or nobody had it.
        if not (lasts or lease.is_unguarded):
            known = await lease.release(driver) if self.ends_plainly and not repeated else None
            if not known:
                known = await self._end(
                    driver, repeated=repeated or known is False, was_lost=was_lost
                )
            if self.released:
                return  # by another task or thread meanwhile, which told what came of it
        self.released = not self.kept
        if was_lost or not known:
            lease.lose(NOT_KNOWN)
            raise await self._told_lost(driver)
        if not lasts:
            await tell_end(driver, lease)

    async def _end(self, driver: Driver, *, repeated: bool, was_lost: bool) -> bool:
        """End the hold, however often connections break; return whether it was held until then.

        `repeated`: whether that was tried before. `was_lost`: whether its lease had ended before that.
        """
        lease = self.lease
        try:
            held, again = await persist(driver, self.end_on, lease.deadline, lock=lease.name)
        except LockBackendError as error:
            note_unconfirmed(lease.token)
            if not was_lost:
                error.may_be_done = True
                raise
            return False
        # When a repeated release finds nothing, the first one most likely released, and its reply was lost.
        return held or again or repeated or lease.ended_by_upgrade

    async def _told_lost(self, driver: Driver) -> LockLost:
        """Tell that the hold is lost, and return what to raise."""
        await tell_end(driver, self.lease)
        return self._lost()

    async def end_on(self, link: Link) -> bool:
        """Run the script that ends the hold; False if the token did not hold the lock."""
        lease = self.lease
        token = lease.token
        if await store.release(link, lease.keys, token):
            return True

        async def release(token: str) -> bool | None:
            return await store.release(link, lease.keys, token) or None

        return bool(await self._by_any_token(release, token))

    async def _by_any_token(
        self, ask: Callable[[str], Awaitable[T | None]], *tried: str
    ) -> T | None:
        """Return what `ask` answers for the first token by which Redis knows the hold; None if there is none."""
        answer: T | None = None
        known = list(tried)
        # Anew each time: the token may have changed while we asked for it.
        while answer is None and (token := self.lease.other_token(known)) is not None:
            known.append(token)
            answer = await ask(token)
        return answer

    async def upgrade_on(self, driver: Driver, wait: float | Unset | None) -> None:
        """See `upgrade`."""
        seconds = bounded(get_settings().wait if wait is UNSET else wait_seconds(wait))
        refused = await self.try_upgrade(driver, seconds)
        if refused is not None:
            raise not_available(self.name, refused, seconds)

    async def try_upgrade(self, driver: Driver, seconds: float | None) -> Refused | None:
        """Turn a shared hold into an exclusive one; return why it could not be, or None."""
        if self._stays("exclusive"):
            return None
        lease, token = self.lease, new_token(session())
        try:
            return await self._upgrade_to(token, driver, seconds)
        except LockLost:
            if not lease.is_open:
                raise self._released() from None
            lease.lose(NOT_KNOWN)
            raise self._lost() from None
        finally:
            try:
                lease.end_upgrade(token)
            except BaseException:
                lease.end_upgrade(token)  # interrupted before it began
                raise
            if not lease.is_open:
                await self._end_again(driver)

    async def _upgrade_to(
        self, token: str, driver: Driver, seconds: float | None
    ) -> Refused | None:
        lease = self.lease
        if not lease.begin_upgrade(token):
            self._refuse_upgrading()
        if lease.mode == "exclusive":
            return None  # by another thread or task, just now
        if not lease.is_settled:
            await self._share(driver)
        self._upgrade = token
        mode = f"upgrade:{lease.token}"
        request = replace(lease.request, token=token, mode=mode, reads=(), broken_off=0)
        patience = get_settings().deadlock_timeout
        outcome = await acquire.acquire(driver, request, seconds, patience)
        if isinstance(outcome, Refused):
            return outcome
        await self._become_exclusive(driver, request, outcome)
        return None

    async def _become_exclusive(self, driver: Driver, request: Request, won: Won) -> None:
        """Have the lease of an upgrade. Interrupted, or if too few replicas know of it, the hold is shared again."""
        lease = self.lease
        shared = lease.request, lease.deadline, lease.fencing_token, lease.mode
        try:
            deadline = max(won.deadline, lease.deadline)  # the script never shortens it
            if request.replicas:
                new = Lease(lease.plan, lease.session, lease.renewer, request.token)
                new.win(deadline, won.fencing_token)
                await replication.confirm(driver, new, won.read)
                deadline = new.deadline
            lease.convert(request, deadline, won.fencing_token, "exclusive")
        except BaseException:
            lease.convert(*shared)
            await acquire.take_back(driver, request)
            raise
        if not lease.is_open:
            raise self._released()

    async def _end_again(self, driver: Driver) -> None:
        """Release what was released during its upgrade, by another thread or task that may have asked by the other token."""
        lease = self.lease
        lease.end_by_upgrade()
        with suppress(LockError):
            await driver.finish(persist(driver, self.end_on, lease.deadline, lock=lease.name))

    async def downgrade_on(self, driver: Driver) -> None:
        """See `downgrade`."""
        if self._stays("shared"):
            return
        self._require_alone("downgrade()")
        await self._share(driver)

    async def undo_upgrade(self, driver: Driver) -> None:
        """Share the lock again, if an upgrade by this hold made it exclusive; so do all that it is nested with."""
        lease = self.lease
        if lease.token == self._upgrade and lease.mode == "exclusive" and lease.is_held:
            await self._share(driver)

    async def give_back(self, driver: Driver, error: BaseException | Unset = UNSET) -> None:
        """End a hold that its caller does not get, and undo its upgrade. The `error`, if given, wins over ours."""
        try:
            with suppress(LockError):
                await self.undo_upgrade(driver)
        finally:
            await self.end(driver, error)

    async def _share(self, driver: Driver) -> None:
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
        lease = self.lease
        # From here on others may share it. If nobody hears of that, no nested block must take it for exclusive.
        lease.change_mode("shared", settled=False)
        held, _ = await persist(
            driver,
            lambda link: store.downgrade(link, lease.keys, lease.token),
            lease.deadline,
            lock=lease.name,
        )
        if not held:
            lease.lose(NOT_KNOWN)
            raise self._lost()
        lease.change_mode("shared", settled=True)

    def _stays(self, mode: str) -> bool:
        """Return whether there is nothing to change; raise if it cannot be changed."""
        self.check()
        self._require_no_rows()
        if self.mode not in {"exclusive", "shared"}:
            msg = "a permit of a semaphore is neither shared nor exclusive; acquire a Lock instead"
            raise TypeError(msg)
        return (self.mode == mode and self.lease.is_settled) or self.is_unguarded

    async def commit_on(self, driver: Driver, pipe: Any) -> None:
        """See `commit`."""
        lease = self.lease
        self._require_committable()
        queued = commits.queue_of(pipe, in_cluster=self.backend.in_cluster)
        await commits.require(queued, driver, lease.keys)
        commands = commits.commands_of(queued)
        if lease.is_over():
            raise self._lost()
        begun = lease.commands is not None
        self._require_held()  # another thread may have released it meanwhile
        self._begin_commit(commands)
        # It goes on for as long as the lease lasts.
        try:
            failure, _ = await persist(
                driver,
                lambda link: store.commit(link, lease.keys, lease.token, commands),
                lease.deadline,
                lock=lease.name,
            )
            if failure is None and begun:
                # Redis remembers a commit for a minute only.
                msg = (
                    f"Lock {self.name!r} is not held any more. Redis does not know, or has forgotten, whether the "
                    "commit that was begun before was applied: look at the data"
                )
                raise LockBackendError(msg)
        except LockBackendError as error:
            error.may_be_done = True
            raise
        if failure is None:
            lease.lose(NOT_KNOWN)
            raise await self._told_lost(driver)
        self.released = True
        emptied = queued.empty()
        if emptied is not None:
            await emptied
        await tell_end(driver, lease)
        if failure:
            raise _command_failed(failure)

    def _begin_commit(self, commands: commits.Commands) -> None:
        """Let the hold end with these commands, and no others, from now on."""
        begun = self.lease.commands
        if begun is None and not self.lease.commit(self, commands):
            msg = (
                f"The end of this hold of lock {self.name!r} has begun already, by another thread or by a release "
                "that failed; acquire the lock again"
            )
            raise LockNotHeld(msg)
        if begun is not None and begun != commands:
            msg = (
                f"A commit of lock {self.name!r} was begun already, and may have been applied; commit the same commands "
                "again to be sure, or others with a new hold"
            )
            raise LockError(msg)

    def _require_committable(self) -> None:
        self._require_held()
        self._require_guarded("commit(pipe)")
        if self.kept:
            msg = (
                f"Lock {self.name!r} is kept until its transaction ends; commit(pipe) would release "
                "it before: take it with scope='block', or send the commands by themselves"
            )
            raise LockError(msg)
        self._require_no_upgrade()
        if self.lease.is_shared:
            self._require_alone("commit(pipe)")

    async def detach_on(self, driver: Driver, lease: float | Unset) -> str:
        """See `detach`."""
        self._require_movable()
        if not self.lease.is_settled:
            await self._share(driver)
            self._require_movable()  # still
        held = self.lease
        milliseconds = held.lease_ms if lease is UNSET else lease_ms(lease)
        # A session of its own: deadlock detection must not take this thread for the holder.
        token = new_token(new_session())
        transit = replace(held.request, token=token, lease_ms=milliseconds, broken_off=0)
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
        where = held.where(self)
        held.leave(self)
        try:
            moved = await self._move_out(driver, transit)
            text = travels._replace(at_ms=moved.at_ms).text()
            await tell_moved(driver, "detached", held)
        except BaseException:
            await driver.finish(self._move_back(driver, transit, where))
            raise
        self.released = True
        return text

    def _require_movable(self) -> None:
        self._require_held()
        self._require_guarded("detach()")
        self._require_no_rows()
        self._require_alone("detach()")
        self._require_no_upgrade()
        if self.kept:
            msg = f"Lock {self.name!r} is kept until its transaction ends; take it with scope='block' to detach it"
            raise LockError(msg)
        if has_crash_release(self.lease.request.who):
            msg = f"Lock {self.name!r} is to be released when its process ends (crash_release): it cannot be given away"
            raise LockError(msg)
        if self.is_lost:
            raise self._lost()

    async def _move_out(self, driver: Driver, transit: Request) -> Adopted:
        """Give this hold to `transit`, and let its replicas know. Raises LockLost if it was too late."""
        held = self.lease
        moved, _ = await self._move_for_good(driver, held.token, transit, held.deadline)
        if moved is None:
            held.lose(NOT_KNOWN)
            raise self._lost()
        return moved  # though the reply may have come after the lease: the server says that it held

    async def _move_for_good(
        self, driver: Driver, token: str, heir: Request, until: float
    ) -> tuple[Adopted | None, float]:
        """As `_move`, once enough replicas know of it; with it the hold's deadline.

        A fail-over may forget the move, though not the hold. The new primary knows the hold by the token that it had
        before, so the move is repeated there.

        Raises LockLost if the lease ended before that was known. Then `heir` may still hold the lock on the server.
        """
        while True:
            sent = monotonic()
            moved = await self._move(driver, token, heir, until)
            deadline = sent + (moved.left_ms / 1000 if moved else 0)
            if moved is None or not heir.replicas:
                return moved, deadline
            known = Lease(self.lease.plan, self.lease.session, self.lease.renewer, heir.token)
            known.win(deadline, moved.fencing_token)
            if await replication.extend(driver, known, heir.lease_ms):
                return moved, known.deadline
            if monotonic() >= until:
                raise self._lost()
            await driver.sleep(_BETWEEN_MOVES)

    async def _move(
        self, driver: Driver, token: str, heir: Request, until: float
    ) -> Adopted | None:
        """Give the hold of `token` to `heir`, however often connections break before `until`; None if there is none."""
        moved, _ = await persist(
            driver, lambda link: store.adopt(link, heir, token), until, lock=self.name
        )
        return moved

    async def _move_back(self, driver: Driver, transit: Request, where: Where) -> None:
        """Be this hold again, after a detachment that may or may not have happened."""
        with suppress(LockBackendError):
            await self._move(driver, transit.token, self.lease.request, self.lease.deadline)
            if transit.broken_off:
                await acquire.take_back(driver, transit)  # or a late question might detach it
        self.lease.resume(self, where)

    @classmethod
    async def _adopt(
        cls,
        detached: Detached,
        backend: Backend,
        driver: Driver,
        renewer: Renewer,
        renew: bool | Unset,  # noqa: FBT001 - as given
        label: str | None,
    ) -> Self:
        own = session()
        terms = Terms(
            detached.mode,
            detached.lease_ms,
            backend=backend,
            renews=get_settings().renew if renew is UNSET else renew,
            replicas=detached.replicas,
            label=label,
            template=detached.template,
        )
        if terms.replicas:
            renewer = backend.patient(driver)
        lease = Lease(Plan(terms, detached.names, backend.keys(*detached.names)), own, renewer)
        request = lease.request
        lease.tells_its_end(tells=False)  # until there is something to tell the end of
        hold = cls(backend, lease)
        until = monotonic() + terms.lease
        try:
            adopted, deadline = await hold._move_for_good(driver, detached.token, request, until)
            if adopted is not None:
                # One hold goes on: its time before, and on the way, counts.
                earlier = (detached.held_ms + adopted.at_ms - detached.at_ms) / 1000
                lease.adopt(adopted.fencing_token, deadline, earlier=earlier)
                lease.begin(hold)
                lease.tells_its_end(tells=True)
                await tell_moved(driver, "adopted", lease)
        except BaseException:
            with suppress(LockError):  # it may or may not have been adopted
                await driver.finish(hold.release_on(driver))
            if request.broken_off:
                await acquire.take_back(driver, request)  # or a late question might adopt it
            raise
        if adopted is None:
            lease.leave(hold)
            msg = (
                f"Lock {hold.name!r} cannot be adopted: it was adopted already, or its lease ended"
            )
            raise LockLost(msg)
        return hold

    def _require_held(self) -> None:
        if self._pid != identity.process.pid:
            raise self._of_another_process()
        if self.released:
            raise self._released()

    def _require_guarded(self, verb: str) -> None:
        if self.is_unguarded:
            msg = (
                f"Lock {self.name!r} is not held, as Redis could not be asked, so this hold has no {verb}: "
                "look at hold.is_unguarded first, or use on_unavailable='raise'"
            )
            raise LockBackendError(msg)

    def _require_alone(self, verb: str) -> None:
        if any(part.lease.is_shared for part in self.parts):
            msg = (
                f"Lock {self.name!r} is held by nested blocks of this thread or task as well; "
                f"call {verb} when the inner ones have ended"
            )
            raise LockError(msg)

    def _require_no_rows(self) -> None:
        # One that is nested in a hold of rows is a plain one, but has its intents.
        if self.lease.intents:
            self._refuse_rows()

    def _refuse_rows(self) -> NoReturn:
        msg = (
            "a hold of rows is neither upgraded, downgraded nor detached; lock them in the "
            "stronger mode at once, and where they are needed"
        )
        raise TypeError(msg)

    def _require_no_upgrade(self) -> None:
        if self.lease.is_upgrading:
            self._refuse_upgrading()

    def _refuse_upgrading(self) -> NoReturn:
        msg = f"The hold of lock {self.name!r} is being upgraded, by another thread or task; wait for that"
        raise LockError(msg)

    def _released(self) -> LockNotHeld:
        return LockNotHeld(
            f"This hold of lock {self.name!r} was released already; acquire the lock again"
        )

    def _of_another_process(self) -> LockNotHeld:
        return LockNotHeld(
            f"The hold of lock {self.name!r} belongs to the process from which this one was forked"
        )

    def _lost(self) -> LockLost:
        why = "its lease ended or it was released by somebody else"
        if any(part.lease.reason == FORCE_RELEASED for part in self.parts):
            why = FORCE_RELEASED
        return LockLost(
            f"Lock {self.name!r} was lost: {why}. Do not rely on what was done since; "
            "use a longer lease, renewal, or the fencing token."
        )

    def drop(self) -> bool:
        """Leave the lock to its lease, as no code refers to the hold any more. Return whether it was still held."""
        lease = self.lease
        if self.released or not lease.is_open or self._pid != identity.process.pid:
            return False
        was_over = lease.is_over()
        if not lease.leave(self):
            self.released = True  # the holds that it was nested with go on
        elif not was_over:
            note_unconfirmed(lease.token)  # a dead end for waiters only until its lease ends
        return not was_over

    def leave_behind(self) -> None:
        """Leave the lock to its lease, as an interrupt kept the end of its block from releasing it."""
        if self.drop():
            logger.warning(
                "Lock %r was not released, as its end was interrupted; it ends with its lease",
                self.name,
            )

    def __del__(self) -> None:
        # One whose making was interrupted has no lease.
        if not self.released and "lease" in vars(self) and self.drop():
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
    """Return the hold to adopt, and its server; raises as `Hold.adopt` says."""
    optional_text(label, "label")
    if renew is not UNSET:
        flag(renew, "renew")
    backend = backend_for(using)
    return Detached.read(text), backend


def _command_failed(failure: str) -> Exception:
    # Not above: redis-py is imported when a connection is, for start-up's sake.
    from redis.exceptions import ResponseError

    return ResponseError(failure)
