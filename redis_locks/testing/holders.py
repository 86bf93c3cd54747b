"""`held`: a lock that somebody else holds, in a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from django.test.utils import TestContextDecorator

from redis_locks.conf.name_function import server_name
from redis_locks.connections.backends import backend_for
from redis_locks.exceptions import LockLost
from redis_locks.locks.lock import Lock
from redis_locks.locks.options import Mode, validate_mode
from redis_locks.protocol.callers import whoami
from redis_locks.testing.memory_backend import MemoryBackend
from redis_locks.values.keys import validate_name

T = TypeVar("T")

_LABEL: Final = "redis_locks.testing.held"


class held(TestContextDecorator):  # noqa: N801 - used like Django's override_settings
    """Holds a lock as somebody else does: the code under test waits for it, or is refused.

    A context manager (``with``, ``async with``), and a decorator of sync and async test functions
    and of ``unittest`` test case classes. The holder is a thread of its own, so code in the test's
    thread is not nested in it. Works on a real server, and under `override_locks` ("granted",
    "lost"), where only this lock is then busy.

    Args:
        name: The lock.
        mode: "exclusive", or "shared": then others may share it.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        AssertionError: The lock is held already. Raised where the block or the test begins.
        LockBackendError: Redis could not be asked.
    """

    def __init__(self, name: str, *, mode: Mode = "exclusive", using: str | None = None) -> None:
        super().__init__()
        self._name, self._mode, self._using = validate_name(name), validate_mode(mode), using
        self._ends: list[Callable[[], None]] = []

    def enable(self) -> None:
        """Take the lock; blocks for a round trip."""
        backend = backend_for(self._using)
        name = server_name(self._name)  # by the test's thread, whose tenant counts
        if isinstance(backend, MemoryBackend):
            end = backend.hold_elsewhere(name, self._mode, whoami(_LABEL))
        else:
            end = _in_thread(partial(self._take, name))
        if end is None:
            msg = f"lock {name!r} is held already, so held() cannot hold it: end that hold first"
            raise AssertionError(msg)
        self._ends.append(end)

    def disable(self) -> None:
        """Release it, unless the test has had it taken away."""
        with suppress(LockLost):
            _in_thread(self._ends.pop())

    def _take(self, name: str) -> Callable[[], None] | None:
        lock = Lock(name, mode=self._mode, using=self._using, label=_LABEL, scope="block")
        hold = lock.acquire(wait=0)
        return None if hold is None else hold.release

    async def __aenter__(self) -> None:
        """Take the lock."""
        await asyncio.to_thread(self.enable)

    async def __aexit__(self, *_: object) -> None:
        """Release it."""
        await asyncio.to_thread(self.disable)


def _in_thread(action: Callable[[], T]) -> T:
    """Return what `action` returns in a new thread.

    That is somebody else, whatever holds, loops and transactions there are here.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result()
