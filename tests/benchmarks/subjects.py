"""The locks that are compared; each is a function that does one acquire and release."""

from __future__ import annotations

import sys
from collections.abc import Callable

import django
from django.conf import settings

Cycle = Callable[[], None]

OURS = "redis_locks"
REDIS_PY = "redis-py Lock"
REDIS_PY_FAST = "redis-py Lock, sleep=1 ms"
PYTHON_REDIS_LOCK = "python-redis-lock"
SUBJECTS = (OURS, REDIS_PY, REDIS_PY_FAST, PYTHON_REDIS_LOCK)


def cycle(subject: str, url: str, name: str) -> Cycle:
    """Return the function that acquires and releases the lock `name` once."""
    if subject == OURS:
        return _ours(url, name)
    import redis

    client = redis.Redis.from_url(url)
    if subject in {REDIS_PY, REDIS_PY_FAST}:
        sleep = 0.1 if subject == REDIS_PY else 0.001

        def redis_py() -> None:
            with client.lock(name, timeout=10, sleep=sleep):
                pass

        return redis_py
    import redis_lock

    def python_redis_lock() -> None:
        with redis_lock.Lock(client, name, expire=10):
            pass

    return python_redis_lock


def _ours(url: str, name: str) -> Cycle:
    if not settings.configured:
        settings.configure(REDIS_LOCKS={"CONNECTION": url, "WAIT": None})
        django.setup()
    from redis_locks import Lock

    lock = Lock(name)

    def ours() -> None:
        with lock:
            pass

    return ours


def available() -> list[str]:
    """Return the subjects whose package is installed here."""
    try:
        import redis_lock  # noqa: F401
    except ImportError:
        sys.stderr.write("python-redis-lock is not installed: left out\n")
        return [subject for subject in SUBJECTS if subject != PYTHON_REDIS_LOCK]
    return list(SUBJECTS)
