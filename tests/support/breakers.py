"""The breakers of servers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from redis_locks import Lock, LockBackendError
from redis_locks.connections.backends import backend_for
from redis_locks.drivers import breaker
from redis_locks.drivers.base import CutShort, Unreachable
from redis_locks.drivers.breaker import Breaker
from redis_locks.testing.server import EmbeddedServer
from tests.support.waiting import until


def breaker_at(using: str) -> Breaker:
    """The breaker of a single server."""
    (found,) = backend_for(using).driver.breakers
    assert isinstance(found, Breaker)
    return found


def is_probing(using: str) -> bool:
    """Whether a thread connects now and then to find out whether the server is back."""
    return breaker_at(using)._prober is not None


@contextmanager
def stopped(server: EmbeddedServer) -> Iterator[Callable[[], None]]:
    """The server is there, but silent until the block ends; yields what lets it go on sooner."""
    pid = server.pid

    def go_on() -> None:
        os.kill(pid, signal.SIGCONT)

    os.kill(pid, signal.SIGSTOP)
    try:
        yield go_on
    finally:
        go_on()


@contextmanager
def silent(server: EmbeddedServer) -> Iterator[None]:
    """The server is there, and says nothing; afterwards calls know that it answers again."""
    with stopped(server):
        yield
    until(lambda: not breaker_at(server.url).is_open)


def open_it(lock: Lock, url: str) -> None:
    """Ask until the breaker of a server is open."""

    def is_open() -> bool:
        with suppress(LockBackendError):
            lock.acquire(wait=0)
        return breaker_at(url).is_open

    until(is_open)
