"""Locks as rows: who holds them, who waits for them, and ways to end holds and waits from outside.

Each lock is read at one instant; a list reads its locks one after the other. The frozen rows show
the past: to act on them, use tokens, as `force_release` does. Each function blocks; its async
twin's name begins with "a".
"""

from __future__ import annotations

from redis_locks.inspection.queries import alock, alocks, anames, lock, locks, names
from redis_locks.inspection.sessions import (
    Parties,
    ablocking,
    acontended,
    aparties,
    blocking,
    contended,
    parties,
)
from redis_locks.inspection.snapshots import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.termination import (
    ForceReleased,
    acancel,
    adrain,
    aforce_release,
    cancel,
    drain,
    force_release,
)

__all__ = [
    "ForceReleased",
    "HolderInfo",
    "LockInfo",
    "Parties",
    "WaiterInfo",
    "ablocking",
    "acancel",
    "acontended",
    "adrain",
    "aforce_release",
    "alock",
    "alocks",
    "anames",
    "aparties",
    "blocking",
    "cancel",
    "contended",
    "drain",
    "force_release",
    "lock",
    "locks",
    "names",
    "parties",
]
