"""Begin an attempt: one round trip; behind somebody else's, the queue of the job's lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from math import inf
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from redis_locks.conf.settings import get_settings
from redis_locks.drivers.base import Driver, Link, Unreachable
from redis_locks.protocol import acquire
from redis_locks.protocol.acquire import Won
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Request
from redis_locks.run_once import records
from redis_locks.run_once.records import Begun, Done, Exhausted, Failed, Locked
from redis_locks.run_once.terms import Terms

T = TypeVar("T")

_SNAG = 0.25
"""Seconds within which a refused connection may be a passing one; after that, say so at once."""


class Started(NamedTuple):
    """An attempt, when its lease ends on this process's monotonic clock, and the seconds in the queue."""

    begun: Begun
    deadline: float
    waited: float = 0.0


async def begin(
    driver: Driver,
    request: Request,
    terms: Terms,
    wait: float | None,
    on_locked: Callable[[Locked], Awaitable[None]],
) -> Started | Locked | Done | Exhausted:
    """Begin an attempt, waiting up to `wait` seconds (0: not at all, None: for ever).

    `on_locked` is called once, before the wait, when somebody else holds the lock. Whatever
    goes wrong, cancellation included, leaves neither hold nor queue entry behind, or raises
    `LockBackendError`; then the lease ends what is there. An attempt that was begun counts.
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
                # Time is up. A stopped process at the head of the queue may hide what is known.
                known = await look(driver, request)
                return _at_last(known, outcome, terms)
            outcome, sent = await _begin(driver, request, terms, until)
        if isinstance(outcome, Begun):
            deadline = sent + request.lease_ms / 1000
            return Started(outcome, deadline, monotonic() - asked if queued else 0.0)
    except BaseException as error:
        # Unless there is nobody to give anything back to.
        if not isinstance(error.__cause__, Unreachable):
            await acquire.take_back(driver, request)
        raise
    return outcome


def _at_last(
    known: Locked | Done | Failed, locked: Locked, terms: Terms
) -> Locked | Done | Exhausted:
    if not isinstance(known, Failed):
        return known
    return Exhausted(*known) if known.attempt >= terms.max_attempts else locked


async def look(driver: Driver, request: Request) -> Locked | Done | Failed:
    """Return what is known of the job; `Locked` is the attempt under way."""
    known, _ = await _persist(driver, lambda link: records.status(link, request))
    return known


async def _begin(
    driver: Driver, request: Request, terms: Terms, until: float
) -> tuple[Begun | Locked | Done | Exhausted, float]:
    return await _persist(driver, lambda link: records.begin(link, request, terms), until)


async def _persist(
    driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]], until: float = 0.0
) -> tuple[T, float]:
    """Run `action`, again on a new link if one breaks; return its reply and when it was sent."""
    sent = 0.0

    async def timed(link: Link) -> T:
        nonlocal sent
        sent = monotonic()
        return await action(link)

    snag = monotonic() + _SNAG
    reply, _ = await persist(driver, timed, max(until, snag), unreachable_until=snag)
    return reply, sent
