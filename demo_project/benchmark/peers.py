"""How locks of other libraries are taken, as their documentation shows, and how often they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.lock import Lock as RedisPyLock

from demo_project.benchmark.conditions import LEASE, WAIT, Take, one_server


class _Counting(RedisPyLock):
    """redis-py's lock, and how often it asked."""

    tries = 0

    def do_acquire(self, token: str) -> bool:
        self.tries += 1
        return super().do_acquire(token)


def redis_py(sleep: float) -> Callable[[str | None, str], Take]:
    """Return what opens redis-py's lock, which asks again after `sleep` seconds."""

    def opened(using: str | None, name: str) -> Take:
        client = one_server(using)
        return lambda: _Counting(client, name, timeout=LEASE, sleep=sleep, blocking_timeout=WAIT)

    return opened


class _CountingSets:
    """A client that counts the SETs, with which python-redis-lock asks."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self.tries = 0

    def set(self, *arguments: Any, **options: Any) -> Any:
        self.tries += 1
        return self._client.set(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def python_redis_lock(using: str | None, name: str) -> Take:
    """Open python-redis-lock's lock."""
    import redis_lock

    client = one_server(using)

    @contextmanager
    def take() -> Iterator[_CountingSets]:
        asked = _CountingSets(client)
        with redis_lock.Lock(asked, name, expire=LEASE, strict=False):
            yield asked

    return take


def walrus(using: str | None, name: str) -> Take:
    """Open walrus's lock, which is made once and acquired again and again."""
    import walrus

    class Counting(walrus.Database):  # type: ignore[misc]  # walrus has no types
        tries = 0

        def run_script(self, script_name: str, **arguments: Any) -> Any:
            self.tries += script_name == "lock_acquire"
            return super().run_script(script_name, **arguments)

    database = Counting(connection_pool=one_server(using).connection_pool)
    lock = database.lock(name, ttl=LEASE * 1000)

    @contextmanager
    def take() -> Iterator[Counting]:
        database.tries = 0
        with lock:
            yield database

    return take


def sherlock(using: str | None, name: str) -> Take:
    """Open sherlock's lock, which is made once and acquired again and again."""
    import sherlock

    class Counting(sherlock.RedisLock):  # type: ignore[misc]  # sherlock has no types
        tries = 0

        def _acquire(self) -> Any:
            self.tries += 1
            return super()._acquire()

    lock = Counting(name, client=one_server(using), expire=LEASE, timeout=WAIT)

    @contextmanager
    def take() -> Iterator[Counting]:
        lock.tries = 0
        with lock:
            yield lock

    return take
