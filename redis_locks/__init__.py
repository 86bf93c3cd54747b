"""Database locking semantics on Redis, for Django.

Users import its names from here, and Django imports it at its start. So nothing is imported
until somebody asks for a name: a process that takes no lock pays for none of it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from redis_locks.connections.colocation import key_beside
    from redis_locks.decorators.redis_lock import redis_lock
    from redis_locks.decorators.semaphore import Semaphore
    from redis_locks.decorators.unique_tasks import unique_task
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
        ProtocolMismatch,
        QueueFull,
        ResultNotStored,
        StaleHold,
        TooMuchContention,
        UnfencedWrite,
    )
    from redis_locks.locks.hold import Hold
    from redis_locks.locks.lock import Lock
    from redis_locks.locks.timeouts import lock_deadline, lock_timeout
    from redis_locks.optimistic.decorator import optimistic
    from redis_locks.protocol.lock_events import LockEvent
    from redis_locks.run_once import Attempt, RunEvent, RunStatus, run_once
    from redis_locks.run_once.job_rows import RunOnceRecord
    from redis_locks.values.lock_alert import LockAlert
    from redis_locks.views import RedisLockMixin

__version__ = "1.0.0rc1"

__all__ = [
    "AlreadyDone",
    "Attempt",
    "AttemptsExhausted",
    "DeadlockDetected",
    "Hold",
    "Lock",
    "LockAlert",
    "LockBackendError",
    "LockError",
    "LockEvent",
    "LockLost",
    "LockNotAvailable",
    "LockNotHeld",
    "LockTimeout",
    "NotReplicated",
    "ProtocolMismatch",
    "QueueFull",
    "RedisLockMixin",
    "ResultNotStored",
    "RunEvent",
    "RunOnceRecord",
    "RunStatus",
    "Semaphore",
    "StaleHold",
    "TooMuchContention",
    "UnfencedWrite",
    "key_beside",
    "lock_deadline",
    "lock_timeout",
    "optimistic",
    "redis_lock",
    "run_once",
    "unique_task",
]

_HOMES: Final = {
    "connections.colocation": ("key_beside",),
    "locks.timeouts": ("lock_deadline", "lock_timeout"),
    "decorators.redis_lock": ("redis_lock",),
    "exceptions": (
        "AlreadyDone",
        "AttemptsExhausted",
        "DeadlockDetected",
        "LockBackendError",
        "LockError",
        "LockLost",
        "LockNotAvailable",
        "LockNotHeld",
        "LockTimeout",
        "NotReplicated",
        "ProtocolMismatch",
        "QueueFull",
        "ResultNotStored",
        "StaleHold",
        "TooMuchContention",
        "UnfencedWrite",
    ),
    "locks.hold": ("Hold",),
    "locks.lock": ("Lock",),
    "protocol.lock_events": ("LockEvent",),
    "optimistic.decorator": ("optimistic",),
    "run_once": ("Attempt", "RunEvent", "RunStatus", "run_once"),
    "run_once.job_rows": ("RunOnceRecord",),
    "decorators.semaphore": ("Semaphore",),
    "decorators.unique_tasks": ("unique_task",),
    "values.lock_alert": ("LockAlert",),
    "views": ("RedisLockMixin",),
}
"""The modules that have the public names; `tests/architecture` compares them with `__all__`."""

_MODULES: Final = (
    "compat",
    "diagnosis",
    "exceptions",
    "fencing",
    "inspection",
    "middleware",
    "rows",
    "signals",
    "statistics",
    "testing",
    "views",
)
"""The public modules, so that `import redis_locks` is enough to write `redis_locks.signals`."""

_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This module, with the functions `optimistic` and `run_once`.

    The packages of those names are imported from inside. Python would then put them in the
    functions' place.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOME_OF or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
