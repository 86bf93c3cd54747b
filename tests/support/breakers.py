"""The breakers of servers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from redis_locks import Lock, LockBackendError
from redis_locks.connections.backends import backend_for
from redis_locks.drivers import breaker
from redis_locks.drivers.base import CutShort, Unreachable
from redis_locks.drivers.breaker import Breaker
from redis_locks.testing.server import EmbeddedServer
from tests.support.waiting import until

__all__ = ["Breaker", "CutShort", "Unreachable", "breaker", "breaker_at", "open_it", "stopped"]


def breaker_at(using: str) -> Breaker:
    """The breaker of a single server."""
    (breaker,) = backend_for(using).driver.breakers
    assert isinstance(breaker, Breaker)
    return breaker


def is_probing(using: str) -> bool:
    """Whether a thread connects now and then to find out whether the server is back."""
    return breaker_at(using)._prober is not None


@contextmanager
def stopped(server: EmbeddedServer) -> Iterator[None]:
    """The server is there, and says nothing."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def open_it(lock: Lock, url: str) -> None:
    """Ask until the breaker of a server is open."""

    def is_open() -> bool:
        with suppress(LockBackendError):
            lock.acquire(wait=0)
        return breaker_at(url).is_open

    until(is_open)
