"""The locks under faults, behind the same few methods: ours in both worlds, and redis-py's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from tests.support import leases
from tests.support.connections import client_of_url, run_blocking
from tests.support.thread_or_task import ThreadOrTask

OURS = "redis_locks"
OURS_ASYNC = "redis_locks, asyncio"
REDIS_PY = "redis-py"


class Held(Protocol):
    """One possession, as the process that has it sees it."""

    fence: int
    """The fencing token; 0 if the lock has none."""

    @property
    def believed_until(self) -> float:
        """Until when, on the monotonic clock, its holder has reason to believe in it."""

    async def release(self) -> str:
        """End it; return "released" or "lost"."""


class Subject(ThreadOrTask):
    """A lock under test."""

    sleep = ThreadOrTask._sleep

    async def acquire(self, wait: float) -> Held | None:
        """Acquire within `wait` seconds, or return None. Raises what the library raises."""
        raise NotImplementedError

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks:
            asyncio.run(work)
        else:
            run_blocking(work)


class Ours(Subject):
    """`redis_locks.Lock`, blocking or async."""

    def __init__(
        self, url: str, names: Sequence[str], *, mode: str, lease: float, renew: bool, tasks: bool
    ) -> None:
        from redis_locks import Lock, Semaphore

        super().__init__(tasks=tasks)
        options: dict[str, Any] = {"using": url, "lease": lease, "renew": renew}
        kind, _, capacity = mode.partition(":")
        if kind == "permit":
            (name,) = names
            self._lock: Any = Semaphore(name, int(capacity), **options)
        else:
            self._lock = Lock(*names, mode=mode, **options)

    async def acquire(self, wait: float) -> Held | None:
        hold = await self._call(self._lock, "acquire", wait=wait)
        return None if hold is None else _OurHold(hold, tasks=self._tasks)


class _OurHold(ThreadOrTask):
    def __init__(self, hold: Any, *, tasks: bool) -> None:
        super().__init__(tasks=tasks)
        self._hold = hold
        self.fence = hold.fencing_token
        self._lost_at: float | None = None

    @property
    def believed_until(self) -> float:
        if self._lost_at is None and self._hold.is_lost:
            self._lost_at = time.monotonic()
        deadline: float = leases.ends_at(self._hold)
        return deadline if self._lost_at is None else min(deadline, self._lost_at)

    async def release(self) -> str:
        from redis_locks import LockLost

        try:
            await self._call(self._hold, "release")
        except LockLost:
            return "lost"
        return "released"


class RedisPy(Subject):
    """`redis.lock.Lock`: no fencing token, and no deadline by the holder's own clock."""

    def __init__(self, url: str, name: str, *, lease: float | None) -> None:
        import redis

        super().__init__(tasks=False)
        if "+sentinel" in url:
            self._client = client_of_url(f"{url}?socket_timeout=5")
        else:
            self._client = redis.Redis.from_url(url, socket_timeout=5)
        self._name = name
        self._seconds = lease

    async def acquire(self, wait: float) -> Held | None:
        lock = self._client.lock(
            self._name, timeout=self._seconds, sleep=0.005, blocking_timeout=wait
        )
        return _RedisPyHold(lock) if lock.acquire() else None


class _RedisPyHold:
    fence = 0
    believed_until = float("inf")

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    async def release(self) -> str:
        from redis.exceptions import LockError

        try:
            self._lock.release()
        except LockError:
            return "lost"
        return "released"


def make(
    subject: str,
    url: str,
    names: Sequence[str],
    *,
    mode: str = "exclusive",
    lease: float | None,
    renew: bool,
) -> Subject:
    """Return the lock `names` of one library.

    Only redis-py's may have no lease, and it knows no other mode.
    """
    if subject == REDIS_PY:
        (name,) = names
        return RedisPy(url, name, lease=lease)
    assert lease is not None
    return Ours(url, names, mode=mode, lease=lease, renew=renew, tasks=subject == OURS_ASYNC)
