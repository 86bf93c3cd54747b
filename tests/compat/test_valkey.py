"""Compat locks over valkey-py's clients: they exclude its locks, and raise errors it knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import valkey
import valkey.asyncio
import valkey.exceptions
from valkey.lock import Lock as ValkeyLock

from redis_locks.compat import AsyncLock, Lock
from redis_locks.testing.server import EmbeddedServer
from tests.compat.worlds import Async, Blocking, CompatAsync, CompatBlocking, World
from tests.support.world import until


class ValkeyBlocking(Blocking):
    lock_class = Lock

    def make_client(self, **options: Any) -> Any:
        return valkey.Valkey.from_url(self.url, **options)


class ValkeyAsync(Async):
    lock_class = AsyncLock

    def make_client(self, **options: Any) -> Any:
        return valkey.asyncio.Valkey.from_url(self.url, **options)


KINDS = [(ValkeyBlocking, CompatBlocking), (ValkeyAsync, CompatAsync)]


@pytest.fixture(params=KINDS, ids=["blocking", "async"])
def worlds(
    request: pytest.FixtureRequest, redis_server: EmbeddedServer
) -> Iterator[tuple[World, World]]:
    """Clients of valkey-py, and of redis-py."""
    ours, redis_py = (kind(redis_server.url) for kind in request.param)
    yield ours, redis_py
    ours.close()
    redis_py.close()


@pytest.fixture
def world(worlds: tuple[World, World]) -> World:
    return worlds[0]


def test_it_excludes_and_is_excluded_by_locks_of_either_package(
    worlds: tuple[World, World], redis_server: EmbeddedServer, client: redis.Redis, name: str
) -> None:
    world, redis_py = worlds
    with valkey.Valkey.from_url(redis_server.url) as theirs:
        lock = world.held(name, timeout=30)
        assert not ValkeyLock(theirs, name).acquire(blocking=False)
        assert not redis_py.lock(name).acquire(blocking=False)
        assert (lock.owned(), lock.locked()) == (True, True)
        lock.release()
        assert ValkeyLock(theirs, name).acquire(blocking=False)
        assert not lock.acquire(blocking=False)
    client.delete(name)


@pytest.mark.parametrize("script_is_known", [True, False])
def test_every_verb_works_whether_the_server_knows_its_script_or_not(
    world: World, client: redis.Redis, name: str, script_is_known: bool
) -> None:
    def forget() -> None:
        if not script_is_known:
            client.script_flush()

    lock = world.lock(name, timeout=30)
    for verb, arguments in (("acquire", ()), ("extend", (30,)), ("reacquire", ())):
        forget()
        assert getattr(lock, verb)(*arguments) is True
    assert client.pttl(name) > 25_000
    forget()
    lock.release()
    assert not client.exists(name)


def test_waiters_get_it_in_order_and_at_once(
    worlds: tuple[World, World], client: redis.Redis, name: str
) -> None:
    world, redis_py = worlds
    holder = world.held(name, timeout=60)
    waiting = []
    for number, waiter in enumerate((redis_py.lock(name), world.lock(name)), 1):
        waiting.append(waiter.start("acquire"))
        until(lambda number=number: client.zcard(f"{name}:redis_locks:line") == number)  # type: ignore[misc]
    began = time.monotonic()
    holder.release()
    assert waiting[0].result(10)
    assert time.monotonic() - began < 5
    assert not waiting[1].done()
    client.delete(name)
    assert waiting[1].result(10)


@pytest.mark.parametrize("theirs", [valkey.exceptions.LockError, redis.exceptions.LockError])
def test_its_errors_are_of_both_packages(
    world: World, client: redis.Redis, name: str, theirs: type[Exception]
) -> None:
    lock = world.lock(name, timeout=30)
    for ask in (lock.release, lambda: lock.extend(5), lock.reacquire):
        with pytest.raises(theirs, match=r"unlocked|not owned"):
            ask()
    assert lock.acquire()
    with pytest.raises(theirs, match="leave time"):
        lock.extend(-60)
    client.set(name, "another's")
    with pytest.raises(theirs, match="within the time specified"):
        world.lock(name, blocking_timeout=0).block(lambda _: None)
    for ask in (lambda: lock.extend(5), lock.reacquire, lock.release):
        with pytest.raises(theirs, match="no longer owned") as raised:
            ask()
        assert isinstance(raised.value, valkey.exceptions.LockNotOwnedError)
        assert isinstance(raised.value, redis.exceptions.LockNotOwnedError)


def test_a_server_that_is_not_there_is_an_error_of_its_client(name: str) -> None:
    with valkey.Valkey(unix_socket_path="/nowhere") as nowhere:
        lock: Any = nowhere.lock(name, lock_class=Lock)
        with pytest.raises(valkey.exceptions.ConnectionError):
            lock.acquire()
