"""lock_timeout and lock_deadline bound the waits of compat locks, as blocking_timeout does."""

from __future__ import annotations

import time
from typing import Any

import pytest
from redis.exceptions import LockError

from redis_locks import lock_deadline, lock_timeout
from tests.compat.conftest import Observer
from tests.compat.worlds import World

LEASE = 5
"""Seconds after which a wait that nothing bounds would end."""


@pytest.mark.parametrize("bound", [lock_timeout, lock_deadline])
@pytest.mark.parametrize(
    "options",
    [{}, {"blocking_timeout": 60}, {"sleep": 0.5}],
    ids=["for-ever", "longer", "seldom"],
)
def test_a_wait_ends_at_the_bound(
    ours: World, server_side: Observer, name: str, bound: Any, options: dict[str, Any]
) -> None:
    ours.lock(name, timeout=LEASE).acquire()
    started = time.monotonic()
    with bound(0.1):
        assert ours.lock(name, **options).acquire() is False
    assert 0.1 <= time.monotonic() - started < LEASE
    assert 0 == server_side.waiters()


def test_a_bound_of_nothing_asks_once(ours: World, name: str) -> None:
    holder = ours.lock(name, timeout=LEASE)
    with lock_timeout(0):
        assert holder.acquire() is True
        assert ours.lock(name).acquire() is False
        holder.release()


def test_a_block_says_that_the_time_is_over(ours: World, name: str) -> None:
    ours.lock(name, timeout=LEASE).acquire()
    with lock_timeout(0.1), pytest.raises(LockError, match="within the time specified"):
        ours.lock(name).block(lambda _: None)


def test_a_bound_makes_no_wait_longer(ours: World, name: str) -> None:
    ours.lock(name, timeout=LEASE).acquire()
    started = time.monotonic()
    with lock_timeout(60):
        assert ours.lock(name, blocking_timeout=0.2).acquire() is False
        assert ours.lock(name, blocking=False).acquire() is False
    assert time.monotonic() - started < LEASE
