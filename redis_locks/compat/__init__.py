"""redis-py's locks, with a queue: the same key, the same interface, and a release that is heard.

    client.lock("report", timeout=10, lock_class=redis_locks.compat.Lock)

Beside redis-py's own locks on the same key each excludes the other, so that a fleet can change
over one process at a time. Those neither queue nor tell: while they hold, ours look for
themselves, every tenth of a second. While ours queue, theirs get their turn when nobody of
ours waits.
"""

from __future__ import annotations

from redis_locks.compat.redis_py import AsyncLock, Lock

__all__ = ["AsyncLock", "Lock"]
