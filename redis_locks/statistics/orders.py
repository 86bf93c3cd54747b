"""Orders in which figures are shown; within the same value most contended first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from redis_locks.statistics.reading import LockStatistics

ORDERS: Final[Mapping[str, Callable[[LockStatistics], Any]]] = {
    "contended": lambda row: -row.contended,
    "acquired": lambda row: -row.acquired,
    "timeouts": lambda row: -row.timed_out,
    "lost": lambda row: -row.lost,
    "deadlocks": lambda row: -row.deadlocks,
    "wait": lambda row: -(row.wait_p99 or 0),
    "hold": lambda row: -(row.hold_p99 or 0),
    "name": lambda row: row.name,
}


def ordered(rows: Iterable[LockStatistics], order: str) -> list[LockStatistics]:
    """Return the rows in one of `ORDERS`."""
    # Sorting is stable, and they come most contended first.
    return sorted(rows, key=ORDERS[order])
