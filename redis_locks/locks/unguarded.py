"""A hold that guards nothing, of a lock whose server could not be asked.

The work goes on without the lock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from math import inf
from time import monotonic

from redis_locks.drivers.base import Driver
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol import lock_events
from redis_locks.protocol.callers import Session
from redis_locks.protocol.lease import UNGUARDED, Lease
from redis_locks.protocol.plans import Plan


class _Nobody:
    """In place of a renewer: nothing is renewed."""

    heartbeat = None

    def add(self, lease: Lease) -> None:
        """Do nothing."""

    def discard(self, lease: Lease) -> None:
        """Do nothing."""

    def revoke(self, token: str) -> None:
        """Do nothing."""

    async def listening(
        self,
        # As `Renewer`.
        run: Callable[[Callable[[], None]], Awaitable[None]] | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()


_NOBODY = _Nobody()


def lease_of(plan: Plan, session: Session) -> Lease:
    """Return the lease of a hold of what was asked for in vain.

    It never ends by itself, and nobody is told of its end.
    """
    lease = Lease(plan, session, _NOBODY, renews=False)
    lease.outage = UNGUARDED
    lease.win(inf, 0, monotonic())
    lease.tells_its_end(tells=False)
    return lease


async def tell(driver: Driver, lease: Lease, error: LockBackendError) -> None:
    """Tell that a block runs without its lock.

    Probes of the server come often from now on, until it answers.
    """
    for breaker in driver.breakers:
        breaker.hurry()
    if lock_events.observer.count("unguarded", lease.names, driver.description, 0.0):
        why = str(error)
        await lock_events.tell(driver, "unguarded", lease.request, mode=lease.mode, reason=why)
