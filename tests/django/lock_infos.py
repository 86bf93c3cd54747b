"""What is known of locks, made up: there are no locks behind it."""

from __future__ import annotations

from typing import Any

from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo

TOKEN = 1_763_736_845_123_456


def info(name: str = "account:1", *, waiters: int = 0, **changes: Any) -> LockInfo:
    who = {"host": "web-1", "pid": 4711, "unit": "thread MainThread", "label": "manage.py x"}
    times = {"fencing_token": TOKEN, "held_for": 3.25, "lease_left": 6.75}
    holder = HolderInfo(**{"token": "t", "mode": "exclusive"} | times | who | changes)
    waiter = WaiterInfo("w", waited=1.5, mode="exclusive", **who)
    return LockInfo(name, "exclusive", (holder,), (waiter,) * min(waiters, 2), waiters, holding=1)
