"""The locks that are measured: how each is taken, the keys it leaves, the commands it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import redis
from django.core.exceptions import ImproperlyConfigured
from redis.lock import Lock as RedisPyLock

from redis_locks.benchmark import book_locks
from redis_locks.benchmark.figures import ORIGINAL
from redis_locks.conf import get_settings
from redis_locks.connections import client_of
from redis_locks.keys import LockKeys, lock_keys, partition_of
from redis_locks.locks import Lock

NAME = "redis_locks:benchmark"
"""The start of the names of all locks that are taken; the name of the one that keeps us alone."""

LEASE, WAIT = 10, 60
"""Seconds, of each lock that can be told."""

Take = Callable[[], AbstractContextManager[object]]
"""Makes what is to be entered for one acquire; what that yields may have `tries`, else it was one."""


@dataclass(frozen=True)
class Subject:
    """One kind of lock.

    Attributes:
        key: What users and figures call it.
        label: What people read.
        open: Given the server and the name of a lock, returns what takes that lock.
        keys_of: Given the name of a lock, returns the Redis keys that it has while somebody uses it.
        sends: The commands of the server's statistics that make up what clients send.
        module: A module that must be installed.
    """

    key: str
    label: str
    open: Callable[[str | None, str], Take]
    keys_of: Callable[[str], tuple[bytes, ...]]
    sends: tuple[str, ...]
    module: str = "redis"

    @property
    def name(self) -> str:
        """The name of the lock that is taken."""
        return f"{NAME}:{self.key}"

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys that this lock has while somebody uses it."""
        return self.keys_of(self.name)

    @property
    def is_installed(self) -> bool:
        """Whether it can be measured here."""
        return find_spec(self.module) is not None


def one_server(using: str | None) -> redis.Redis:
    """Return the client that `using` names. Raises ImproperlyConfigured if that is a cluster's."""
    client = client_of(using)
    if isinstance(client, redis.Redis):
        return client
    msg = "a benchmark compares locks on one server: name one of the cluster's nodes, or another server, by --using"
    raise ImproperlyConfigured(msg)


class _Counting(RedisPyLock):
    """redis-py's lock, and how often it asked."""

    tries = 0

    def do_acquire(self, token: str) -> bool:
        self.tries += 1
        return super().do_acquire(token)


def _original(using: str | None, name: str) -> Take:
    client = one_server(using)
    return lambda: book_locks.setnx_lock(client, name, WAIT, LEASE)


def _lua(using: str | None, name: str) -> Take:
    client = one_server(using)
    return lambda: book_locks.lua_lock(client, name, WAIT, LEASE)


def _redis_py(sleep: float) -> Callable[[str | None, str], Take]:
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


def _python_redis_lock(using: str | None, name: str) -> Take:
    import redis_lock

    client = one_server(using)

    @contextmanager
    def take() -> Iterator[_CountingSets]:
        asked = _CountingSets(client)
        with redis_lock.Lock(asked, name, expire=LEASE, strict=False):
            yield asked

    return take


def _ours(using: str | None, name: str) -> Take:
    lock = Lock(name, wait=WAIT, lease=LEASE, using=using, label="locks benchmark")
    return lambda: lock


def our_keys(name: str) -> LockKeys:
    """Return the keys of a lock of ours, as the settings have it."""
    settings = get_settings()
    return lock_keys(settings.prefix, partition_of(name, settings.partitions), name)


def _our_keys(name: str) -> tuple[bytes, ...]:
    return tuple(key for kind, key in our_keys(name)._asdict().items() if kind != "fence")


def _book_keys(name: str) -> tuple[bytes, ...]:
    return (f"lock:{name}".encode(),)


def _own_key(name: str) -> tuple[bytes, ...]:
    return (name.encode(),)


def _python_redis_lock_keys(name: str) -> tuple[bytes, ...]:
    return (f"lock:{name}".encode(), f"lock-signal:{name}".encode())


OURS = "redis_locks"
SLEEPLESS = "redis-py-1ms"

SUBJECTS: Mapping[str, Subject] = {
    subject.key: subject
    for subject in (
        Subject(
            ORIGINAL,
            "original, of the book",
            _original,
            _book_keys,
            ("setnx", "expire", "ttl", "watch", "get", "multi", "del", "exec", "unwatch"),
        ),
        Subject("lua", "Lua, of the book", _lua, _book_keys, ("evalsha",)),
        Subject("redis-py", "redis-py Lock", _redis_py(0.1), _own_key, ("set", "evalsha")),
        Subject(
            SLEEPLESS, "redis-py Lock, sleep=1ms", _redis_py(0.001), _own_key, ("set", "evalsha")
        ),
        Subject(
            "python-redis-lock",
            "python-redis-lock",
            _python_redis_lock,
            _python_redis_lock_keys,
            # The script that releases does one GET, and so is counted with it.
            ("set", "get", "blpop"),
            module="redis_lock",
        ),
        Subject(OURS, "redis_locks", _ours, _our_keys, ("evalsha",)),
    )
}

USUAL = tuple(key for key in SUBJECTS if key != SLEEPLESS)
"""Those of the table, unless somebody chooses."""
