"""How often each lock was acquired, contended and lost, how long waits and holds were.

Counted in each process, sent to the server every few seconds, and kept there for a day; switched
off by ``REDIS_LOCKS["STATISTICS"]``. What is sent has bounds: see `collector` and the scripts.
Each function blocks, and has a twin for async code whose name begins with "a".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis_locks.statistics.history import (
        Event,
        LockStatistics,
        Moment,
        Period,
        Statistics,
        aevents,
        aread,
        events,
        read,
    )

__all__ = [
    "Event",
    "LockStatistics",
    "Moment",
    "Period",
    "Statistics",
    "aevents",
    "aread",
    "events",
    "read",
]


def __getattr__(name: str) -> Any:
    """Import what reads figures when it is first asked for: every process counts, few read."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from redis_locks.statistics import history

    return getattr(history, name)
