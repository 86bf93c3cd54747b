"""What redis-py gets wrong: a call on a held lock deletes its key, and the next caller is let in.

The call returns True.
"""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError

from tests.compat.worlds import World


@pytest.mark.parametrize(
    "arguments", [(0, True), (-1, True), (0.0004, True), (-20,), (-10,), (-1e12,)]
)
def test_to_extend_never_ends_a_lock(
    ours: World, client: redis.Redis, name: str, arguments: tuple[Any, ...]
) -> None:
    lock = ours.held(name, timeout=10)
    with pytest.raises(LockError, match=r"call release\(\)") as caught:
        lock.extend(*arguments)
    assert not isinstance(caught.value, LockNotOwnedError)
    assert name == caught.value.lock_name
    assert 8_000 < client.pttl(name) <= 10_000
    assert lock.owned() is True


def test_to_extend_may_shorten(ours: World, client: redis.Redis, name: str) -> None:
    lock = ours.held(name, timeout=10)
    assert lock.extend(-5) is True
    assert 3_000 < client.pttl(name) <= 5_000


@pytest.mark.parametrize("timeout", [0, 0.0, 0.0004])
def test_to_reacquire_never_ends_a_lock(
    ours: World, client: redis.Redis, name: str, timeout: float
) -> None:
    lock = ours.held(name, timeout=10)
    lock.lock.timeout = timeout
    with pytest.raises(LockError, match="timeout above 0"):
        lock.reacquire()
    assert 8_000 < client.pttl(name) <= 10_000


def test_a_lock_without_end_is_not_ended_by_reacquire(
    ours: World, client: redis.Redis, name: str
) -> None:
    lock = ours.held(name, timeout=0)
    with pytest.raises(LockError, match="timeout=0"):
        lock.reacquire()
    assert -1 == client.pttl(name)
    lock.release()
    assert not client.exists(name)
