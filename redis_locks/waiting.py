"""Acquire: one round trip when the lock is free, else a place in the queue and silence.

The server is not polled. Whoever releases makes the first living waiter the holder and
tells it so. A waiter speaks up by itself only to take over from a holder that died, and
at least every `RECHECK` seconds in case a message was lost or the server forgot the queue.
"""

from __future__ import annotations

from redis_locks import observing
from redis_locks.attempts import Attempt, Step, Won
from redis_locks.drivers.base import Driver, LinkBroken
from redis_locks.exceptions import DeadlockDetected, LockBackendError, LockLost
from redis_locks.identity import note_unconfirmed
from redis_locks.store import Refused, Request


async def acquire(
    driver: Driver,
    request: Request,
    wait: float | None,
    patience: float | None = None,
    since: float | None = None,
) -> Won | Refused:
    """Acquire, waiting up to `wait` seconds (0: not at all, None: for ever).

    After `patience` seconds it looks for a deadlock if its thread or task holds something (None: only when it is told to), and again now and then. `since`:
    when the wait began, on the monotonic clock, if that was before, and told as contention.

    Returns `Refused` when somebody else still held the lock at the end. Whatever goes wrong,
    cancellation included, leaves neither hold nor queue entry behind, or raises
    `LockBackendError` if Redis could not be told; then the lease ends what is there.
    Raises `DeadlockDetected` when this wait was ended for others to go on, and `LockError` when
    an operator cancelled it.
    """
    attempt = Attempt(driver, request, wait, patience, since)
    return await finish(attempt, attempt.ask())


async def finish(attempt: Attempt, step: Step) -> Won | Refused:
    """Do the next step of an attempt, and all that follow; see `acquire`."""
    driver, request, wait = attempt.driver, attempt.request, attempt.wait
    try:
        won = await attempt.run(step)
        attempt.close()  # here, so that an interrupt meanwhile takes back what was won
    except BaseException as error:
        await give_up(attempt)
        if isinstance(error, DeadlockDetected):
            await observing.tell_deadlock(
                driver, request, error, wait=wait, waited=attempt.waited()
            )
        raise
    if isinstance(won, Refused) and wait != 0:
        await observing.tell_refused(
            driver, "timed_out", request, won, wait=wait, waited=attempt.waited()
        )
    return won


async def give_up(attempt: Attempt) -> None:
    """Take back what was asked for, if anything was, and give the link back. Doing it again does nothing."""
    try:
        if attempt.sent:
            await _abandon(attempt.driver, attempt)
            attempt.sent = False
    finally:
        attempt.close()


async def take_back(driver: Driver, request: Request) -> None:
    """Give up what `acquire` got for `request`, for a caller interrupted before it could use it."""
    attempt = Attempt(driver, request, 0)
    try:
        await _abandon(driver, attempt)
    finally:
        attempt.close()


async def _abandon(driver: Driver, attempt: Attempt) -> None:
    try:
        await driver.finish(attempt.abandon())
    except LockLost:
        return  # an upgrade: it left, and has nothing to go back to
    except (LockBackendError, LinkBroken):
        attempt.forsake()
        note_unconfirmed(attempt.token)  # its lease, or its place's time, ends it
