"""What locks and waiters take of the server's memory, and what acquires leave in the process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import monotonic
from typing import Any

import redis

from redis_locks import Lock, scripts
from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Call, run_blocking
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.protocol import store
from redis_locks.protocol.callers import new_token, whoami
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks.sections import Figures, Measure, Place, Section, Wanted

LABEL = "POST /accounts/1234/withdraw"
LOCKS, WAITERS, ACQUIRES = 300, 200, 10_000
HELD, WAITER, BLOCKS = "bytes a held lock", "bytes a waiter", "more blocks of Python's memory"

_AT_ONCE = 2000
"""Acquires of one round trip; more would wait in the server's memory."""


class _Calls:
    """In place of a connection: notes the calls of a script, and answers each as if the lock were granted."""

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.calls: list[Call] = []

    async def call(
        self, script: scripts.Script, call: Call, reads: Sequence[bytes] = ()
    ) -> list[Any]:
        self.calls.append(call)
        return [f"{call[1][0]} 1 1 1".encode()]


def ask(url: str, names: Iterator[str], lease_ms: int = 60_000) -> None:
    """Acquire each lock, or join its queue, as one thread after the other; many in a round trip."""
    backend = Backend(Endpoint.from_url(url), "redis_locks", 1)
    link = run_blocking(backend.driver.checkout())
    who = whoami(LABEL)
    while some := list(islice(names, _AT_ONCE)):
        noted = _Calls(link.listener)
        for name in some:
            request = store.Request(backend.keys(name), new_token(), lease_ms, "exclusive", who)
            run_blocking(store.acquire(noted, request, lease_ms, monotonic(), first=True))
        for reply in run_blocking(link.call_many(scripts.ACQUIRE, noted.calls)):
            if isinstance(reply, BaseException):
                raise reply
    backend.driver.checkin(link)


def size(client: redis.Redis) -> int:
    """Bytes that all keys of the server take, by its own count."""
    return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(count=1000))


def sizes(server: EmbeddedServer) -> tuple[float, float]:
    """Return the bytes that a held lock and a waiter take of an empty server's memory."""
    locks = [f"account:{i}" for i in range(LOCKS)]  # too many for the compact form of an index
    with server.client() as client:
        ask(server.url, iter(locks))
        held = size(client)
        ask(server.url, iter(locks[:1] * WAITERS))
        return held / LOCKS, (size(client) - held) / WAITERS


def growth(take: Callable[[str], Lock], acquires: int, name: str = "growth") -> int:
    """Return by how many blocks of memory so many acquires let this process grow."""

    def cycle(times: int) -> int:
        for i in range(times):
            with take(f"{name}:{i % 10}"):
                pass
        gc.collect()
        return sys.getallocatedblocks()

    before = cycle(200)
    return cycle(acquires) - before


@contextmanager
def _opened(place: Place) -> Iterator[Measure]:
    def measure(subject: str) -> Figures:
        with place.server.client() as client:
            client.flushall()
        held, waiter = sizes(place.server)
        grown = growth(lambda name: Lock(name, using=place.server.url), ACQUIRES)
        return {HELD: held, WAITER: waiter, BLOCKS: grown}

    yield measure


def _wanted(figure: str, most: float, label: str) -> Wanted:
    return Wanted(label, lambda round_: round_[""][figure], most, most=True, form="{:.0f}")


SECTION = Section(
    "sizes",
    f"Memory: {LOCKS} locks and {WAITERS} waiters, and {ACQUIRES:,} acquires",
    ("",),
    _opened,
    (
        _wanted(HELD, 500, "Redis: bytes a held lock"),
        _wanted(WAITER, 250, "Redis: bytes a waiter"),
        # Less than one object for ten acquires: what grows with acquires would be a thousand and
        # more.
        _wanted(BLOCKS, ACQUIRES / 10, f"Python: blocks of memory after {ACQUIRES:,} acquires"),
    ),
)
