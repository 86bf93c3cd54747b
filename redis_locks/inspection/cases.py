"""What is going on with a lock: one word for it, whether a summary or all its details are known."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from redis_locks.inspection.replies import Summary
from redis_locks.statistics.usual import Usual
from redis_locks.values.identity import COOLDOWN
from redis_locks.values.keys import QUEUED

LONG_WAIT: Final = 10.0
"""Seconds of a wait from which it is marked as trouble."""

LONG_HOLD: Final = 10.0
"""Seconds of a hold below which it is never marked as trouble, however short the usual ones are."""

RECENT: Final = 300.0
"""Seconds for which a lock is marked after one of its waits was ended to break a deadlock."""

CONVOY: Final = 3
"""How many waiters make a convoy, if a newcomer has to wait for a second at least."""

_NEWCOMER: Final = 1.0


class Case(StrEnum):
    """What is going on."""

    FREE = "free"
    HAND_OFF = "hand-off"
    NORMAL = "normal"
    CONVOY = "convoy"
    LONG = "long"
    STALE = "stale"
    GONE = "gone"
    DEADLOCK = "deadlock"


def excess(held_for: float, usual: Usual | None) -> float:
    """Return by how many seconds a hold exceeds what is usual; 0 if that is not known."""
    return max(0.0, held_for - usual.p99) if usual else 0.0


def is_long(held_for: float, usual: Usual | None) -> bool:
    """Whether a hold is far longer than usual: three times the 99th percentile, and `LONG_HOLD`."""
    return usual is not None and held_for >= max(LONG_HOLD, 3 * usual.p99)


def is_renewed(lease_left: float, lease: float) -> bool:
    """Whether a lease has enough left.

    Below a third, two renewals are missing, or nobody renews it.
    """
    return lease_left * 3 >= lease


def newcomer_waits(waiting: int, holding: int, usual: Usual) -> float:
    """Return for how many seconds an acquire that comes now waits.

    Provided that holds go on to last as usual.
    """
    return waiting * usual.p50 / max(1, holding)


def is_convoy(waiting: int, holding: int, held_for: float, usual: Usual | None) -> bool:
    """Whether many wait though holds are as usual: more callers come than the lock can serve."""
    return (
        usual is not None
        and holding > 0
        and waiting >= CONVOY
        and held_for <= usual.p99
        and newcomer_waits(waiting, holding, usual) >= _NEWCOMER
    )


def held_case(
    held_for: float, lease_left: float, lease: float, *, usual: Usual | None, is_gone: bool
) -> Case:
    """Return what is going on with a hold, whoever waits."""
    if is_gone:
        return Case.GONE
    if not is_renewed(lease_left, lease):
        return Case.STALE
    return Case.LONG if is_long(held_for, usual) else Case.NORMAL


def is_cooldown(lock: Summary) -> bool:
    """Whether nobody works: something only keeps the name closed, for a while."""
    # Most are not, and to read who holds takes longer.
    return COOLDOWN in lock.held_by and any(
        first.label.startswith(COOLDOWN) for first in lock.holders[:1]
    )


def case_of(lock: Summary, usual: Callable[[str], Usual | None]) -> Case:
    """Return what is going on with a lock, as far as its summary and what is usual say."""
    if not lock.holding:
        return Case.HAND_OFF
    if lock.name.startswith(QUEUED) or is_cooldown(lock):
        return Case.NORMAL
    usual_hold = usual(lock.name)
    case = held_case(
        lock.held_for, lock.lease_left, lock.lease, usual=usual_hold, is_gone=lock.gone > 0
    )
    if case is Case.NORMAL and is_convoy(lock.waiting, lock.holding, lock.held_for, usual_hold):
        return Case.CONVOY
    return case
