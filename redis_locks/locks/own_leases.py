"""What the caller holds itself, or whoever waits for its call: to write under, not to acquire."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from types import FrameType

from redis_locks.protocol.bridges import may_wait_for, waiting_for
from redis_locks.protocol.callers import Held, session
from redis_locks.protocol.lease import STACK, Lease


def own_lease(names: Collection[str]) -> Lease | None:
    """Return the latest lease around the caller that has one of these locks, on any server.

    Return None if there is none. The lease may be lost by now. A hold that was acquired by hand
    counts inside ``with hold:`` only.
    """
    for held, frames in _around(names):
        for lease in _having(names, held):
            if lease.is_around(held, frames):
                return lease
    return None


def _around(names: Collection[str]) -> Iterator[tuple[Held, Container[FrameType]]]:
    here = session()
    yield here.held, STACK
    # To see who waits for this call takes a look at stacks. Most often nobody around has any of the
    # locks.
    if here.is_called and any(any(_having(names, held)) for held in may_wait_for(here)):
        for each in waiting_for(here):
            yield each.held, each.frames


def _having(names: Collection[str], held: Held) -> Iterator[Lease]:
    """Yield the open leases that have one of these locks, the latest first.

    Leases that have the intent only do not count.
    """
    for lease in reversed(list(held.open)):
        if any(name in names and name not in lease.intents for _, name in lease.plan.places):
            yield lease
