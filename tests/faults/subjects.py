"""The locks that are put under faults, each behind the same few methods: ours in both worlds, and redis-py's."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from tests.support import leases

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


class Subject(Protocol):
    """A lock under test."""

    async def acquire(self, wait: float) -> Held | None:
        """Acquire within `wait` seconds, or return None. Raises what the library raises."""

    async def sleep(self, seconds: float) -> None: ...

    def run(self, work: Coroutine[Any, Any, None]) -> None: ...


class Ours:
    """`redis_locks.Lock`, blocking or async."""

    def __init__(
        self, url: str, names: Sequence[str], *, mode: str, lease: float, renew: bool, in_loop: bool
    ) -> None:
        from redis_locks import Lock, Semaphore

        options: dict[str, Any] = {"using": url, "lease": lease, "renew": renew}
        kind, _, capacity = mode.partition(":")
        if kind == "permit":
            (name,) = names
            self._lock: Any = Semaphore(name, int(capacity), **options)
        else:
            self._lock = Lock(*names, mode=mode, **options)
        self._in_loop = in_loop

    async def acquire(self, wait: float) -> Held | None:
        acquiring = self._lock.aacquire if self._in_loop else self._lock.acquire
        hold = await _result(acquiring(wait=wait))
        return None if hold is None else _OurHold(hold, in_loop=self._in_loop)

    async def sleep(self, seconds: float) -> None:
        if self._in_loop:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - there is no loop

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        if self._in_loop:
            asyncio.run(work)
        else:
            _run_without_loop(work)


class _OurHold:
    def __init__(self, hold: Any, *, in_loop: bool) -> None:
        self._hold = hold
        self._in_loop = in_loop
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
            await _result(self._hold.arelease() if self._in_loop else self._hold.release())
        except LockLost:
            return "lost"
        return "released"


class RedisPy:
    """`redis.lock.Lock`: no fencing token, and no deadline by the holder's own clock."""

    def __init__(self, url: str, name: str, *, lease: float | None) -> None:
        import redis

        from tests.support.connections import client_of_url

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

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - there is no loop

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        _run_without_loop(work)


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


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _run_without_loop(work: Coroutine[Any, Any, None]) -> None:
    try:
        work.send(None)
    except StopIteration:
        return
    raise RuntimeError("this work must not suspend")


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
    return Ours(url, names, mode=mode, lease=lease, renew=renew, in_loop=subject == OURS_ASYNC)
