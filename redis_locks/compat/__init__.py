"""redis-py's locks, with a queue.

The same key, the same interface, and a hand-off to the first waiter.

    client.lock("report", timeout=10, lock_class=redis_locks.compat.Lock)

These locks and redis-py's own exclude each other on the same key, so a fleet can migrate one
process at a time. redis-py's locks have no queue and notify nobody. While one of them holds the
key, our first waiter asks every 0.1 s. While our waiters queue, redis-py's locks get the key only
when the queue is empty, or when more than 200 dead waiters stand first.
"""

from __future__ import annotations

from redis_locks.compat.redis_py import AsyncLock, Lock

__all__ = ["AsyncLock", "Lock"]
