"""What a decorated function does when somebody else holds its lock: raise, skip, or answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_locks import Lock, LockNotAvailable, LockTimeout, redis_lock
from tests import elsewhere


def test_a_call_that_does_not_wait_raises_lock_not_available(name: str) -> None:
    locked = redis_lock(name, wait=0)(lambda: None)
    with elsewhere.held(Lock(name)), pytest.raises(LockNotAvailable) as raised:
        locked()
    assert type(raised.value) is LockNotAvailable


def test_a_call_that_waits_too_long_raises_lock_timeout(name: str) -> None:
    locked = redis_lock(name, wait=0.05)(lambda: None)
    with elsewhere.held(Lock(name)), pytest.raises(LockTimeout):
        locked()


def test_skip_returns_none_without_a_call(name: str) -> None:
    called: list[int] = []

    @redis_lock(name, wait=0, on_conflict="skip")
    def locked() -> None:
        called.append(1)

    @redis_lock(name, wait=0, on_conflict="skip")
    async def alocked() -> None:
        called.append(1)

    with elsewhere.held(Lock(name)):
        assert locked() is None  # type: ignore[func-returns-value]
        asyncio.run(alocked())
    assert called == []


def test_a_callable_decides_what_is_returned(name: str) -> None:
    def instead(error: LockNotAvailable, a: int, *, b: int) -> tuple[str, int, int]:
        return error.name, a, b

    async def ainstead(error: LockNotAvailable, a: int, *, b: int) -> tuple[str, int, int]:
        return error.name, a, b

    def plain(a: int, *, b: int) -> Any: ...

    async def aplain(a: int, *, b: int) -> Any: ...

    with elsewhere.held(Lock(name)):
        assert redis_lock(name, wait=0, on_conflict=instead)(plain)(1, b=2) == (name, 1, 2)
        for callback in (instead, ainstead):
            alocked = redis_lock(name, wait=0, on_conflict=callback)(aplain)
            assert asyncio.run(alocked(1, b=2)) == (name, 1, 2)


def test_a_sync_function_cannot_answer_contention_asynchronously(name: str) -> None:
    async def instead(error: LockNotAvailable) -> None: ...

    locked = redis_lock(name, wait=0, on_conflict=instead)(lambda: None)
    with elsewhere.held(Lock(name)), pytest.raises(TypeError, match="must not be async"):
        locked()


def test_contention_inside_the_function_is_not_taken_for_its_own(name: str) -> None:
    @redis_lock(name, on_conflict="skip")
    def locked() -> None:
        raise LockNotAvailable("another one", "other")

    with pytest.raises(LockNotAvailable, match="another one"):
        locked()
