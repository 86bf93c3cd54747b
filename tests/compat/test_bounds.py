"""lock_timeout and lock_deadline bound the waits of compat locks, as blocking_timeout does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio.retry
import redis.retry
from redis.backoff import NoBackoff
from redis.exceptions import LockError
from redis.exceptions import TimeoutError as NoReply

from redis_locks import lock_deadline, lock_timeout
from tests.compat.conftest import Observer
from tests.compat.worlds import OURS, Async, World
from tests.faults.proxy import Proxy

LEASE = 5
"""Seconds after which a wait that nothing bounds would end."""


@pytest.mark.parametrize("bound", [lock_timeout, lock_deadline])
@pytest.mark.parametrize(
    "options", [{}, {"blocking_timeout": 60}, {"sleep": 0.5}], ids=["for-ever", "longer", "seldom"]
)
def test_a_wait_ends_at_the_bound(
    ours: World, server_side: Observer, name: str, bound: Any, options: dict[str, Any]
) -> None:
    ours.held(name, timeout=LEASE)
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
    ours.held(name, timeout=LEASE)
    with lock_timeout(0.1), pytest.raises(LockError, match="within the time specified"):
        ours.lock(name).block(lambda _: None)


def test_a_bound_makes_no_wait_longer(ours: World, name: str) -> None:
    ours.held(name, timeout=LEASE)
    started = time.monotonic()
    with lock_timeout(60):
        assert ours.lock(name, blocking_timeout=0.2).acquire() is False
        assert ours.lock(name, blocking=False).acquire() is False
    assert time.monotonic() - started < LEASE


TIMEOUT = 0.5
"""The client's socket_timeout."""
SLACK = 1.4
"""Seconds for a busy machine."""


@pytest.mark.parametrize("kind", OURS)
def test_with_a_silent_server_the_client_s_timeout_bounds_an_acquire(
    make_world: Callable[..., World], proxy: Proxy, name: str, kind: type[World]
) -> None:
    world = make_world(kind, proxy.url)
    retries = (redis.asyncio.retry if issubclass(kind, Async) else redis.retry).Retry
    client = world.client(
        socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=retries(NoBackoff(), 0)
    )
    lock = world.lock(name, client=client, blocking_timeout=60)
    assert lock.acquire() is True
    lock.release()
    proxy.part()
    started = time.monotonic()
    with pytest.raises(NoReply):
        lock.acquire()
    # To ask, and to take that back.
    assert time.monotonic() - started < 2 * TIMEOUT + SLACK
    proxy.heal()
