"""`Job`: how a worker acquires an attempt at a job, or learns why there is none for it.

One round trip begins an attempt. Behind somebody else's attempt, the worker waits in the queue of
the job's lock.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine
from math import inf
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from redis_locks.conf.name_function import server_name
from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.drivers.base import Driver, Link, Unreachable, run_blocking
from redis_locks.exceptions import AlreadyDone, AttemptsExhausted, LockBackendError, LockError
from redis_locks.locks.contention import not_available
from redis_locks.locks.lock import Side
from redis_locks.locks.with_blocks import Block
from redis_locks.protocol import acquire, lock_events
from redis_locks.protocol.lease import Lease, tell_end
from redis_locks.protocol.retry import at_last, persist
from redis_locks.protocol.store import Refused, Request, Won
from redis_locks.run_once import records
from redis_locks.run_once.attempts import Attempt, pending
from redis_locks.run_once.events import Kind, RunEvent, RunEvents, tell
from redis_locks.run_once.records import Begun, Done, Failed, Locked
from redis_locks.run_once.status import RunStatus
from redis_locks.run_once.terms import JobTerms
from redis_locks.values.identity import describe_holder

T = TypeVar("T")

_SNAG = 0.25
"""Seconds within which a refused connection may pass. After that, a refusal is an error at once."""


class Job(NamedTuple):
    """One job: its name, its terms, and the object whose event methods are called."""

    name: str
    terms: JobTerms
    events: RunEvents

    @classmethod
    def of_call(cls, name: str, terms: JobTerms, events: RunEvents) -> Job:
        """Return the job that is called `name` where it is asked for; see `server_name`."""
        return cls(server_name(name, "job"), terms, events)

    def enter(self, wait: float | Unset | None = UNSET, block: Block | None = None) -> Attempt:
        """Return an attempt, that of `block` if given.

        Blocks for up to `wait` seconds, see `acquire`.
        """
        side = Side(self.terms.using, block)
        done = pending(side.backend, self.name)
        if done is not None:
            raise self._already_done(done)
        return run_blocking(self.acquire(side, self.terms.effective_wait(wait)))

    async def aenter(
        self, wait: float | Unset | None = UNSET, block: Block | None = None
    ) -> Attempt:
        """Return an attempt; suspends for up to `wait` seconds, see `acquire`."""
        seconds = self.terms.effective_wait(wait)
        return await self.acquire(Side.of_loop(self.terms.using, block), seconds)

    async def status(self, side: Side) -> RunStatus:
        """Return what is known of the job. Raises LockBackendError."""
        known = await look(side.driver, self.lease(side).request)
        attempts = known.attempt
        if isinstance(known, Locked):
            holder = describe_holder(known.claim)
            return RunStatus(self.name, "running", attempts, holder=holder)
        if isinstance(known, Done):
            return RunStatus(self.name, "done", attempts, self.terms.format.read(known.result))
        if not attempts:
            return RunStatus(self.name, "new")
        is_over, last_error = attempts >= self.terms.max_attempts, known.last_error or None
        return RunStatus(
            self.name, "exhausted" if is_over else "failed", attempts, last_error=last_error
        )

    def status_by_record(self, status: RunStatus) -> RunStatus:
        """Return that the job is done if its record says so, whatever Redis has forgotten.

        Else `status`.
        """
        record = self.terms.record_of(self.name)
        if record is None or status.state in ("running", "done"):
            return status
        done = record.find()
        if done is None:
            return status
        return RunStatus(self.name, "done", status.attempts, self.terms.format.read(done))

    def lease(self, side: Side) -> Lease:
        """Return what this worker asks for, with a token of its own."""
        return Lease(self.terms.plan(side.backend, self.name), side.session, side.renewer)

    async def acquire(self, side: Side, wait: float | None) -> Attempt:
        """Return an attempt, having waited up to `wait` seconds (0: not at all, None: for ever).

        Raises:
            AlreadyDone: The job is done.
            AttemptsExhausted: No attempt is left.
            LockNotAvailable: Somebody else is at it, and the wait is 0.
            LockTimeout: Somebody else was still at it after the wait.
            DeadlockDetected: The wait closed a circle of waits.
            LockLost: The lease ended before all receivers were told. The attempt counts.
            LockBackendError: Redis could not be asked.
        """
        attempt = self._asking(side)
        lease, request = attempt.lease, attempt.lease.request

        async def on_locked(locked: Locked) -> None:
            holder = describe_holder(locked.claim)
            await self._tell(side, "locked", attempt=locked.attempt, holder=holder)
            if wait == 0:  # else the wait sends the event
                await lock_events.tell_refused(
                    side.driver, "contended", request, _refused(locked), wait=wait
                )

        try:
            outcome = await begin(side.driver, request, self.terms, wait, on_locked)
        except (LockError, CancelledError) as error:
            lease.leave(attempt)  # what was asked for is taken back
            if isinstance(error, LockBackendError):
                await self._tell(side, "error", attempt=0, error=error)
            raise
        if isinstance(outcome, Started):
            return await self._start(side, attempt, outcome, wait)
        lease.leave(attempt)
        if isinstance(outcome, Failed):
            last_error = outcome.last_error or None
            await self._tell(side, "exhausted", attempt=outcome.attempt, last_error=last_error)
            raise self._exhausted(outcome)
        if isinstance(outcome, Done):
            raise self._already_done(outcome)
        raise not_available(self.name, _refused(outcome), wait)

    def _asking(self, side: Side) -> Attempt:
        """Return an attempt that is yet to be asked for.

        The block, if any, has it from now on: no interrupt leaves what is asked.
        """
        attempt = Attempt(side.backend, self.lease(side), self.terms, self.events)
        if side.block is not None:
            side.block.append(attempt)
        return attempt

    async def _start(
        self, side: Side, attempt: Attempt, started: Started, wait: float | None
    ) -> Attempt:
        begun, lease = started.begun, attempt.lease
        try:
            lease.win(started.deadline, begun.fencing_token, waited=started.waited)
            attempt.begin(begun.attempt)
            # Before anybody is told: receivers may take longer than the lease. No acquire finds it,
            # but a search for deadlocks and a COMMIT must know of it.
            lease.begin_unfound(attempt, side.session.held, side.where)
            if lock_events.observer.count_hold("acquired", started.waited, lease):
                await lease.tell_acquired(side.driver, wait)
            known = {"attempt": begun.attempt, "fencing_token": begun.fencing_token}
            if begun.attempt > 1:
                last_error = begun.last_error or None
                await self._tell(side, "reacquired", **known, last_error=last_error)
            await self._tell(side, "acquired", **known)
        except BaseException:
            # Interrupted before the caller got the attempt: end it here, else it would warn that it
            # was dropped without release.
            lease.leave(attempt)
            await acquire.give_up(side.driver, lease.request)
            await side.driver.finish(tell_end(side.driver, lease))
            raise
        if attempt.is_lost:
            await attempt.end(side.driver)  # tells that, and raises LockLost
        return attempt

    async def _tell(self, side: Side, kind: Kind, **details: Any) -> None:
        event = RunEvent(name=self.name, max_attempts=self.terms.max_attempts, **details)
        await tell(self.events, kind, event, task=side.driver.suspends)

    def _already_done(self, done: Done) -> AlreadyDone:
        result = self.terms.format.read(done.result)
        msg = f"Job {self.name!r} is done already, by attempt {done.attempt}"
        return AlreadyDone(msg, self.name, done.attempt, result)

    def _exhausted(self, exhausted: Failed) -> AttemptsExhausted:
        attempts, last_error = exhausted.attempt, exhausted.last_error or None
        why = last_error or "its process died or lost the lock"
        times = "once" if attempts == 1 else f"{attempts} times"
        msg = f"Job {self.name!r} has failed {times} and is not tried again; the last time: {why}"
        return AttemptsExhausted(msg, self.name, attempts, last_error)


def _refused(locked: Locked) -> Refused:
    return Refused(locked.at_ms, locked.ends_ms, locked.claim)


class Started(NamedTuple):
    """An attempt, when its lease ends, and the seconds in the queue.

    The lease ends by this process's monotonic clock.
    """

    begun: Begun
    deadline: float
    waited: float = 0.0


async def begin(
    driver: Driver,
    request: Request,
    terms: JobTerms,
    wait: float | None,
    on_locked: Callable[[Locked], Awaitable[None]],
) -> Started | Locked | Done | Failed:
    """Begin an attempt, waiting up to `wait` seconds (0: not at all, None: for ever).

    `on_locked` is called once, before the wait, if somebody else holds the lock. An error or a
    cancellation leaves neither a hold nor a place in the queue behind. Exception: after a
    `LockBackendError` the lease ends what was left. An attempt counts as soon as it begins.
    """
    asked = monotonic()
    until = inf if wait is None else asked + wait
    try:
        outcome, sent = await _begin(driver, request, terms, until)
        queued = isinstance(outcome, Locked)
        if isinstance(outcome, Locked):
            await on_locked(outcome)
        while isinstance(outcome, Locked):
            left = until - monotonic()
            if left <= 0:
                break
            granted = await acquire.acquire(
                driver, request, None if wait is None else left, get_settings().deadlock_timeout
            )
            if not isinstance(granted, Won):
                # Time is up. A stopped process at the head of the queue may have kept the result
                # from us.
                known = await look(driver, request)
                follows = isinstance(known, Failed) and known.attempt < terms.max_attempts
                return outcome if follows else known
            outcome, sent = await _begin(driver, request, terms, until)
        if isinstance(outcome, Begun):
            deadline = sent + request.lease_ms / 1000
            return Started(outcome, deadline, monotonic() - asked if queued else 0.0)
    except BaseException as error:
        # Unless the server cannot be reached.
        if not isinstance(error.__cause__, Unreachable):
            await acquire.give_up(driver, request, in_bulk=True)
        raise
    return outcome


async def look(driver: Driver, request: Request) -> Locked | Done | Failed:
    """Return what is known of the job; `Locked` is the attempt under way."""
    known, _ = await _persist(driver, lambda link: records.status(link, request))
    return known


async def _begin(
    driver: Driver, request: Request, terms: JobTerms, until: float
) -> tuple[Begun | Locked | Done | Failed, float]:
    return await _persist(driver, lambda link: records.begin(link, request, terms), until)


async def _persist(
    driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]], until: float = 0.0
) -> tuple[T, float]:
    """Run `action`, again on a new link if one breaks; return its reply and when it was sent."""
    sent = 0.0

    async def timed(link: Link) -> T:
        nonlocal sent
        sent = monotonic()
        return await action(await link.bulk())  # the result of a job may be large

    snag = monotonic() + _SNAG
    now = monotonic()
    reply, _ = await persist(
        driver,
        timed,
        max(until, snag),
        unreachable_until=snag,
        within=max(until - now, 0.0) + driver.reply_timeout,
        ends=at_last(),
    )
    return reply, sent
