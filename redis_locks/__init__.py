"""Database locking semantics on Redis, for Django."""

from __future__ import annotations

from redis_locks.beside import key_beside
from redis_locks.deadlines import lock_deadline, lock_timeout
from redis_locks.decorators import redis_lock
from redis_locks.exceptions import (
    AlreadyDone,
    AttemptsExhausted,
    DeadlockDetected,
    LockBackendError,
    LockError,
    LockLost,
    LockNotAvailable,
    LockNotHeld,
    LockTimeout,
    NotReplicated,
    StaleHold,
    TooMuchContention,
)
from redis_locks.holds import Hold
from redis_locks.locks import Lock
from redis_locks.observing import LockEvent
from redis_locks.optimistic.decorator import optimistic
from redis_locks.run_once import Attempt, RunEvent, RunStatus, run_once
from redis_locks.semaphores import Semaphore
from redis_locks.views import RedisLockMixin

__version__ = "0.1.0"

__all__ = [
    "AlreadyDone",
    "Attempt",
    "AttemptsExhausted",
    "DeadlockDetected",
    "Hold",
    "Lock",
    "LockBackendError",
    "LockError",
    "LockEvent",
    "LockLost",
    "LockNotAvailable",
    "LockNotHeld",
    "LockTimeout",
    "NotReplicated",
    "RedisLockMixin",
    "RunEvent",
    "RunStatus",
    "Semaphore",
    "StaleHold",
    "TooMuchContention",
    "key_beside",
    "lock_deadline",
    "lock_timeout",
    "optimistic",
    "redis_lock",
    "run_once",
]
