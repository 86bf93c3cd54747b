"""Ours, redis-py's and django-redis's locks on one key exclude each other."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.cache import cache
from django_redis import get_redis_connection

from redis_locks import compat
from redis_locks.testing.server import EmbeddedServer
from tests.compat.conftest import Observer
from tests.compat.worlds import CompatBlocking, RedisPyBlocking, World
from tests.faults.processes import Worker
from tests.support.world import PATIENCE, until

GIVEN = "given"
Start = Callable[..., Worker]
SCRIPT = str(Path(__file__).with_name("worker.py"))


@pytest.fixture
def start(redis_server: EmbeddedServer, name: str) -> Iterator[Start]:
    """Start processes that use the lock `name`; all are gone afterwards."""
    started: list[Worker] = []

    def run(kind: str, *arguments: str) -> Worker:
        started.append(Worker(redis_server.url, SCRIPT, name, kind, *arguments))
        return started[-1]

    yield run
    for worker in started:
        worker.close()


@pytest.fixture
def django_cache(redis_server: EmbeddedServer, settings: Any) -> None:
    """django-redis's cache on the test's server, whoever made one before."""
    backend = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": redis_server.url}
    settings.CACHES = {"default": backend}


def test_while_theirs_hold_ours_do_not_and_the_other_way_round(
    ours: World, theirs: World, name: str
) -> None:
    for first, second in ((ours, theirs), (theirs, ours)):
        holder, other = first.lock(name), second.lock(name)
        assert holder.acquire()
        assert other.acquire(blocking=False) is False
        assert other.acquire(blocking_timeout=0.15) is False
        assert (True, False) == (other.locked(), other.owned())
        assert holder.owned()
        holder.release()
        assert other.acquire(blocking=False) is True
        other.release()


@pytest.mark.usefixtures("django_cache")
def test_ours_excludes_django_redis_s_and_the_other_way_round(ours: World, name: str) -> None:
    theirs, mine = cache.lock(name), ours.lock(cache.client.make_key(name))
    with theirs:
        assert mine.acquire(blocking=False) is False
    assert mine.acquire()
    assert theirs.acquire(blocking=False) is False
    mine.release()
    assert theirs.acquire(blocking=False)
    theirs.release()


@pytest.mark.usefixtures("django_cache")
def test_the_lock_class_works_over_django_redis_s_own_client(name: str) -> None:
    lock = get_redis_connection("default").lock(name, timeout=5, lock_class=compat.Lock)
    with lock:
        assert isinstance(lock, compat.Lock)
        assert not cache.client.get_client().lock(name).acquire(blocking=False)


@pytest.mark.parametrize("place", ["alone", "before another waiter"])
def test_a_release_by_theirs_is_noticed_within_a_tenth_of_a_second(
    ours: World, theirs: World, server_side: Observer, name: str, place: str
) -> None:
    def is_noticed_soon() -> bool:
        holder = theirs.held(name)
        waiter = ours.lock(name, sleep=5)
        waiting = [waiter.start("acquire")]
        if place != "alone":
            server_side.until_heard(1)
            waiting.append(ours.lock(name).start("acquire"))
        server_side.until_heard(len(waiting))
        holder.release()
        released = time.monotonic()
        assert waiting[0].result(PATIENCE) is True
        took = time.monotonic() - released
        server_side.client.delete(name)
        for each in waiting[1:]:
            assert each.result(PATIENCE) is True
            server_side.client.delete(name)
        return took < 0.1

    until(is_noticed_soon)  # a busy machine may be late, but not each time


def test_theirs_gets_its_turn_when_none_of_ours_waits(
    ours: World, theirs: World, name: str
) -> None:
    holder = ours.held(name)
    waiting = theirs.lock(name).start("acquire")
    holder.release()
    assert waiting.result(PATIENCE) is True


def test_theirs_can_release_what_ours_acquired_by_its_token(
    ours: World, theirs: World, name: str
) -> None:
    ours.lock(name).acquire(token=GIVEN)
    waiting = ours.lock(name).start("acquire")
    theirs.lock(name).do_release(GIVEN)
    assert waiting.result(PATIENCE) is True


def test_theirs_that_barges_in_is_respected(
    ours: World, client: redis.Redis, server_side: Observer, name: str
) -> None:
    client.set(name, "first")
    waiting = server_side.in_line(ours.lock(name))
    client.set(name, "second")
    with pytest.raises(TimeoutError):
        waiting.result(0.3)
    assert b"second" == client.get(name)
    client.delete(name)
    assert waiting.result(PATIENCE) is True


@pytest.mark.verdict
def test_threads_of_both_never_meet(
    make_world: Callable[..., World], client: redis.Redis, name: str
) -> None:
    inside, met, errors = [0], [], []

    def work(world: World) -> None:
        lock = world.lock(name, sleep=0.005)
        try:
            for _ in range(25):
                with lock.lock:
                    inside[0] += 1
                    met.append(inside[0])
                    client.ping()
                    inside[0] -= 1
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)

    kinds = (CompatBlocking, RedisPyBlocking) * 3
    threads = [threading.Thread(target=work, args=(make_world(kind),)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [] == errors
    assert [1] * (25 * len(kinds)) == met


@pytest.mark.verdict
@pytest.mark.long
def test_processes_of_all_kinds_lose_no_update(
    start: Start, client: redis.Redis, server_side: Observer, name: str
) -> None:
    kinds = ("compat", "redis-py", "compat", "django-redis", "compat-async")
    for worker in [start(kind, "count", "60") for kind in kinds]:
        assert "done" == worker.answer(PATIENCE * 2)
    assert 60 * len(kinds) == int(client.get(f"count:{name}"))
    assert set() == server_side.keys()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["compat", "redis-py"])
def test_a_killed_holder_blocks_for_its_timeout_at_most(
    start: Start, ours: World, client: redis.Redis, name: str, kind: str
) -> None:
    worker = start(kind, "hold")
    assert "held" == worker.answer()
    worker.kill()
    client.pexpire(name, 300)  # the rest of its timeout
    assert ours.lock(name).acquire(blocking_timeout=PATIENCE)


def test_a_killed_waiter_is_skipped_at_once(
    start: Start, ours: World, server_side: Observer, name: str
) -> None:
    holder = ours.held(name)
    worker = start("compat", "hold")
    server_side.until_heard(1)
    waiting = server_side.in_line(ours.lock(name), place=2)
    worker.kill()
    holder.release()
    released = time.monotonic()
    assert waiting.result(PATIENCE) is True
    assert time.monotonic() - released < 1  # less than a dead waiter may keep what it was handed


@pytest.mark.ci
def test_a_stopped_waiter_delays_the_next_by_two_seconds_at_most_and_waits_on(
    start: Start, ours: World, server_side: Observer, name: str
) -> None:
    holder, successor = ours.lock(name), ours.lock(name, thread_local=False)
    holder.acquire()
    worker = start("compat", "hold")
    server_side.until_heard(1)
    waiting = server_side.in_line(successor, place=2)
    worker.send(signal.SIGSTOP)
    holder.release()
    released = time.monotonic()
    assert waiting.result(PATIENCE) is True
    assert time.monotonic() - released < 4
    worker.send(signal.SIGCONT)
    server_side.until_heard(1)
    assert successor.owned()
    successor.release()
    assert "held" == worker.answer()
