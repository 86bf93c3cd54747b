"""How often each lock was acquired, contended and lost, and how long waits and holds were.

Each process counts, and sends its figures to the server every few seconds. The server keeps them
for a day, within the bounds that `collector` and the scripts set. ``REDIS_LOCKS["STATISTICS"]``
switches them off. Each function blocks; its async twin's name begins with "a".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis_locks.statistics.history import (
        LockStatistics,
        Moment,
        PastHold,
        Statistics,
        aevents,
        aholds,
        aread,
        events,
        holds,
        read,
    )
    from redis_locks.statistics.note import Event

__all__ = [
    "Event",
    "LockStatistics",
    "Moment",
    "PastHold",
    "Statistics",
    "aevents",
    "aholds",
    "aread",
    "events",
    "holds",
    "read",
]


def __getattr__(name: str) -> Any:
    """Import `history` when somebody first asks for it: every process counts, few read."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from redis_locks.statistics import history

    return getattr(history, name)
