"""The locks that are measured: how each is taken, the keys it leaves, the commands it sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

import redis

from demo_project.benchmark import book_locks, peers
from demo_project.benchmark.conditions import LEASE, WAIT, Take, one_server
from demo_project.benchmark.figures import ORIGINAL
from redis_locks.conf.settings import get_settings
from redis_locks.locks.lock import Lock
from redis_locks.values.keys import LockKeys, ServerName, lock_keys, partition_of

NAME = "redis_locks:benchmark"
"""The start of the names of all locks that are taken; the name of the one that keeps us alone."""


@dataclass(frozen=True)
class Subject:
    """One kind of lock.

    Attributes:
        key: What users and figures call it.
        label: What people read.
        open: Given the server and the name of a lock, returns what takes that lock.
        keys_of: Given the name of a lock, returns the Redis keys that it has while somebody uses
            it.
        sends: The commands of the server's statistics that make up what clients send.
        module: A module that must be installed.
        missing: Given the server, says what it lacks to be measured, or "".
    """

    key: str
    label: str
    open: Callable[[str | None, str], Take]
    keys_of: Callable[[str], tuple[bytes, ...]]
    sends: tuple[str, ...]
    module: str = "redis"
    missing: Callable[[redis.Redis], str] = field(default=lambda _: "")

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


def _original(using: str | None, name: str) -> Take:
    client = one_server(using)
    return lambda: book_locks.setnx_lock(client, name, WAIT, LEASE)


def _lua(using: str | None, name: str) -> Take:
    client = one_server(using)
    return lambda: book_locks.lua_lock(client, name, WAIT, LEASE)


def _two_commands(using: str | None, name: str) -> Take:
    client = one_server(using)
    command = book_locks.compares_and_deletes(client)
    return lambda: book_locks.two_commands_lock(client, name, WAIT, LEASE, command=command)


def _no_compare_and_delete(client: redis.Redis) -> str:
    if book_locks.compares_and_deletes(client):
        return ""
    return f"this server has no command to compare and delete. {book_locks.WHO_COMPARES}"


def _ours(using: str | None, name: str) -> Take:
    lock = Lock(ServerName(name), wait=WAIT, lease=LEASE, using=using, label="locks benchmark")
    return lambda: lock


def our_keys(name: str) -> LockKeys:
    """Return the keys of a lock of ours, as the settings have it."""
    settings = get_settings()
    return lock_keys(settings.prefix, partition_of(name, settings.partitions), name)


def _book_keys(name: str) -> tuple[bytes, ...]:
    return (f"lock:{name}".encode(),)


def _own_key(name: str) -> tuple[bytes, ...]:
    return (name.encode(),)


def _python_redis_lock_keys(name: str) -> tuple[bytes, ...]:
    return (f"lock:{name}".encode(), f"lock-signal:{name}".encode())


def _walrus_keys(name: str) -> tuple[bytes, ...]:
    return (f"lock:{name}".encode(), f"lock.event:{name}".encode())


OURS = "redis_locks"
SLEEPLESS = "redis-py-1ms"
TWO_COMMANDS = "set-delex"

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
        Subject(
            TWO_COMMANDS,
            "SET, compare-and-delete",
            _two_commands,
            _book_keys,
            ("set", "delex", "delifeq"),
            missing=_no_compare_and_delete,
        ),
        Subject("redis-py", "redis-py Lock", peers.redis_py(0.1), _own_key, ("set", "evalsha")),
        Subject(
            SLEEPLESS,
            "redis-py Lock, sleep=1ms",
            peers.redis_py(0.001),
            _own_key,
            ("set", "evalsha"),
        ),
        Subject(
            "python-redis-lock",
            "python-redis-lock",
            peers.python_redis_lock,
            _python_redis_lock_keys,
            # The script that releases does one GET, and so is counted with it.
            ("set", "get", "blpop"),
            module="redis_lock",
        ),
        Subject(
            "walrus", "walrus", peers.walrus, _walrus_keys, ("evalsha", "blpop"), module="walrus"
        ),
        Subject("sherlock", "sherlock", peers.sherlock, _own_key, ("evalsha",), module="sherlock"),
        # With the CLIENT REPLY in the packet of an acquire; see `protocol.acquire`.
        Subject(OURS, "redis_locks", _ours, our_keys, ("evalsha", "client|reply")),
    )
}

USUAL = (ORIGINAL, "lua", TWO_COMMANDS, "redis-py", "python-redis-lock", OURS)
"""The locks of the table, unless somebody chooses."""
