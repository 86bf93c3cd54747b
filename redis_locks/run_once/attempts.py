"""`Attempt`: the hold of the worker that does a job.

Its release records one verdict: done or failed.

A verdict that is passed inside a transaction takes effect when that ends: the transaction keeps the
attempt until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from sys import exception
from typing import Any, Final, NoReturn

from django.db.transaction import TransactionManagementError

from redis_locks.conf.settings import UNSET, Unset
from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Driver, Link
from redis_locks.exceptions import LockError, LockNotHeld
from redis_locks.locks.hold import Hold
from redis_locks.locks.hold_errors import lost, require_held
from redis_locks.locks.releases import Begun
from redis_locks.locks.scope import Scope
from redis_locks.locks.transactions import Kept, Transactions
from redis_locks.protocol.lease import NOT_KNOWN, Lease, State
from redis_locks.run_once import records
from redis_locks.run_once.events import Kind, RunEvent, RunEvents, tell
from redis_locks.run_once.results import Verdict
from redis_locks.run_once.terms import JobTerms
from redis_locks.values import identity
from redis_locks.values.modes import Taken

_current: ContextVar[_Running | None] = ContextVar("redis_locks_attempt", default=None)

_SCOPE: Final = Scope("auto", None, commit_guard=True)
"""Which transactions count: all that are open in this thread."""


class _Running:
    """A decorated function that runs."""

    def __init__(self, attempt: Attempt, around: _Running | None) -> None:
        self.attempt = attempt
        self.around = around
        self.has_ended = False
        """Whether its block has; an interrupt may have kept it current."""


class Attempt(Hold):
    """One attempt at a job. A `Hold` that ends with a verdict: `done` or `fail`.

    An attempt that is released without a verdict counts as one that died: another takes over at
    once.
    """

    ends_plainly = False
    _running: _Running | None = None
    """The decorated function, if it is one's attempt."""

    def __init__(self, backend: Backend, lease: Lease, terms: JobTerms, events: RunEvents) -> None:
        super().__init__(backend, lease)
        self.number = 0
        """Which attempt at the job this is, from 1; 0: it has yet to begin."""
        self._terms = terms
        self._events = events
        self._verdict: Verdict | None = None
        self._failure: LockError | None = None
        self._pending: _Pending | None = None

    def begin(self, number: int) -> None:
        """Note that the server has begun this attempt, which is the so-manieth at the job."""
        self.number = number

    @property
    def max_attempts(self) -> int:
        """How many attempts there are."""
        return self._terms.max_attempts

    @property
    def is_last(self) -> bool:
        """Whether no other attempt follows should this one fail."""
        return self.number >= self._terms.max_attempts

    @staticmethod
    def current() -> Attempt:
        """Return the attempt of the decorated function that runs here, in this thread or task.

        Raises:
            LockNotHeld: No such function runs. A block has its attempt from ``as``.
        """
        running = _current.get()
        while running is not None and running.has_ended:
            running = running.around
        if running is None:
            msg = "no function decorated with run_once runs here; a block has its attempt from `as`"
            raise LockNotHeld(msg)
        return running.attempt

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Make this attempt the one that `current` returns."""
        around = _current.get()
        self._running = _Running(self, around)
        try:
            _current.set(self._running)
            yield
        finally:
            _current.set(around)

    def done(self, result: Any = None) -> Any:
        """Record that the job is done, release the lock, and return the result.

        The server remembers it for `done_ttl` seconds.

        Blocks for a round trip. Leaving the attempt's block does the same, without a result.
        What it returns is what later calls get: `result` as it comes back from JSON.
        Inside a transaction it takes effect after COMMIT; after a rollback, the attempt has failed.

        Args:
            result: The result for later calls. Only with `store_result=True`.

        Raises:
            LockLost: The lock was lost before: nothing was recorded, another attempt follows.
            LockNotHeld: The attempt is over, or belongs to another process.
            LockBackendError: Redis could not be told; the job may be recorded as done or not.
            ResultNotStored: The job is done, but the result is no JSON, is larger than 1 MiB, or
                `store_result` is False.
        """
        verdict = self._done(result)
        self._conclude(verdict, keep=True)
        self.release()
        if self.kept and verdict.error is not None:
            verdict.error.add_note(
                "redis_locks: if the transaction is rolled back, the job runs again"
            )
        return _result_of(verdict)

    async def adone(self, result: Any = None) -> Any:
        """Record that the job is done; see `done`. A cancellation does not prevent that."""
        verdict = self._done(result)
        self._conclude(verdict)
        await self.arelease()
        return _result_of(verdict)

    def fail(self, error: BaseException | str) -> None:
        """Record that this attempt failed, and release the lock, so that another takes over.

        Blocks for a round trip. An exception that leaves the attempt's block does the same.
        Inside a transaction it takes effect when that has ended.

        Raises:
            LockLost: The lock was lost before: another attempt follows anyway.
            LockNotHeld: The attempt is over, or belongs to another process.
            LockBackendError: Redis could not be told; another attempt follows when the lease ends.
        """
        self._conclude(Verdict.failed(error), keep=True)
        self.release()

    async def afail(self, error: BaseException | str) -> None:
        """Record that this attempt failed; see `fail`."""
        self._conclude(Verdict.failed(error))
        await self.arelease()

    def _conclude(self, verdict: Verdict, *, keep: bool = False) -> None:
        """Let the hold end with `verdict`. Raises LockNotHeld if it has ended, or is about to."""
        require_held(self)
        if self.kept and self._verdict is not None:
            msg = (
                f"This attempt at job {self.name!r} was ended already: it is over when its "
                "transaction has ended. Call done() or fail() once"
            )
            raise LockNotHeld(msg)
        if keep:
            self._keep()
        self._verdict = verdict

    def _keep(self) -> None:
        """Let the open transactions of this thread, if any, keep the attempt.

        Doing it again does nothing. Raises as `Scope.keepers`.
        """
        if not self.lease.is_open or self.pid != identity.process.pid:
            return
        keepers = _SCOPE.keepers()
        if keepers is not None:
            if self._pending is None:
                self._pending = _Pending(self, _taken(self.backend, self.name))
            for each in keepers.transactions:
                each.keep(self._pending)
        self.kept = self._pending is not None and bool(self._pending.keepers)

    def roll_back(self) -> None:
        """Let it have failed: a transaction in which its verdict was passed was rolled back."""
        if self._verdict is None or self._verdict.is_done:
            self._verdict = Verdict.rolled_back(exception())

    def answer(self) -> records.Done | None:
        """Return how it has done the job, though that has yet to take effect.

        If it has failed, end it, and return None.

        Raises:
            LockLost: Its lock is lost, and so is the work of the transaction.
            LockBackendError: Redis could not be told that it failed.
        """
        verdict = self._verdict
        if verdict is None:
            return None
        self.check()
        if verdict.is_done:
            return records.Done(self.number, verdict.outcome)
        self.kept = False
        self.release()
        return None

    def _end_running(self) -> None:
        if self._running is not None:
            self._running.has_ended = True
            self._running = None  # no circle, which would keep the attempt until a collection

    def _concludes(self, error: BaseException | None) -> bool:
        """Pass a verdict at the end of the block, if there is none.

        Return False if the end of the attempt has failed already.
        """
        self._end_running()
        if self._failure is not None and error is self._failure:
            return False
        if self._verdict is None:
            self._verdict = self._done(None) if error is None else Verdict.failed(error)
        return True

    def _done(self, result: Any) -> Verdict:
        return Verdict.done(self.name, result, self._terms.results)

    async def end_on(self, link: Link) -> bool:
        """Run the script that writes the verdict and ends the hold.

        False if the token did not hold the lock.
        """
        verdict = self._verdict
        if verdict is None or self.lease.state is State.LOST:
            return await super().end_on(link)
        held = await records.finish(
            *(link, verdict.script, self.lease.request),
            *(self.number, self._terms.kept_ms, verdict.outcome),
        )
        if not held and verdict.is_done:
            # Not the echo of a lost reply, unlike for a plain release: a repeated DONE finds its
            # record.
            self.lease.lose(NOT_KNOWN)
            raise lost(self.lease)
        return held

    async def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        msg = (
            f"an attempt at job {self.name!r} ends with done() or fail(): it cannot be shared, "
            "given away, or ended with commit()"
        )
        raise TypeError(msg)

    commit_on = detach_on = downgrade_on = _refuse

    def end_block(self, error: BaseException | None) -> None:
        """Release, or leave that to the open transactions.

        The end of a block is a verdict if there is none yet.
        """
        self._concludes(error)  # first: an interrupt from here on changes nothing
        try:
            self._keep()
        except TransactionManagementError as refused:
            self._verdict = Verdict.failed(error or refused)
            super().end_block(error or refused)
            if error is None:
                raise
            return
        super().end_block(error)

    def leave_behind(self) -> None:
        """Have it released in the background, or when the open transactions have ended.

        An interrupt kept its block from doing that, but the transactions may go on.
        """
        self._end_running()
        try:
            self._keep()
        except TransactionManagementError as refused:
            self._verdict = Verdict.failed(refused)
        if not self.kept:
            super().leave_behind()
        elif self._verdict is None:
            self._verdict = Verdict.failed("its block was interrupted")

    async def end(
        self, driver: Driver, error: BaseException | Unset | None = UNSET, begun: Begun = None
    ) -> None:
        """Release; the end of a block, with `error` or None, is a verdict if there is none yet."""
        if error is UNSET or self._concludes(error):
            await super().end(driver, error, begun)

    async def release_on(self, driver: Driver, begun: Begun = None) -> None:
        """Write the verdict and release, and tell what came of it."""
        if self.released:
            return
        if self._verdict is not None:
            self.last_moment = inf  # like a commit, it is not cut short while the lease lasts
        try:
            await super().release_on(driver, begun)
        except LockError as error:
            if self._failure is None:
                self._failure = error
                await self._tell("error", task=driver.suspends, error=error)
            raise
        except BaseException:
            if self.released:
                await self._tell_verdict(task=driver.suspends)
            raise
        await self._tell_verdict(task=driver.suspends)

    async def _tell_verdict(self, *, task: bool) -> None:
        verdict = self._verdict
        if verdict is None or self.kept:
            return
        if verdict.is_done:
            await self._tell("done", task=task)
            return
        await self._tell("error", task=task, error=verdict.error)
        if self.is_last:
            await self._tell("exhausted", task=task, last_error=verdict.outcome)

    async def _tell(self, kind: Kind, *, task: bool, **details: Any) -> None:
        event = RunEvent(self.name, self.number, self.max_attempts, self.fencing_token, **details)
        await tell(self._events, kind, event, task=task)


def _result_of(verdict: Verdict) -> Any:
    if verdict.error is not None:
        raise verdict.error
    return verdict.result


class _Pending(Kept):
    """An attempt whose verdict takes effect when transactions have ended.

    The last of those that keep it has to end.

    It is done if all of them were committed.
    """

    def leave(self, ended: Transactions, *, committed: bool) -> None:
        """Note that a transaction has ended; see `Kept.leave`."""
        if not committed and isinstance(self.hold, Attempt):
            self.hold.roll_back()
        super().leave(ended, committed=committed)


def pending(backend: Backend, name: str) -> records.Done | None:
    """Return how an open transaction of this thread has done a job; None if it has not.

    Raises as `Attempt.answer`; and TransactionManagementError if a transaction was begun by hand,
    whose end nobody knows.
    """
    keepers = _SCOPE.keepers()
    for each in keepers.transactions if keepers else ():
        kept = each.find(_taken(backend, name), _is_pending)
        attempt = None if kept is None else kept.hold
        if isinstance(attempt, Attempt) and (done := attempt.answer()):
            return done
    return None


def _taken(backend: Backend, name: str) -> Taken:
    return Taken(backend, frozenset({name}), "exclusive", kind="job")


def _is_pending(hold: Hold) -> bool:
    return hold.kept and hold.is_open
