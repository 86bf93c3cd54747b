"""A server that forgets scripts, kills connections, dies and comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from redis_locks import Hold, Lock, LockBackendError, LockLost
from redis_locks.testing.server import EmbeddedServer
from tests.support.world import PATIENCE, Observer, World, held, keys_of, served, until


@contextmanager
def repeated(
    disturb: Callable[[], object], progress: Callable[[], int], pause: float = 0.02
) -> Iterator[None]:
    """Disturb again and again while there is progress: a busy machine needs longer for a cycle."""
    stop = threading.Event()

    def run() -> None:
        seen = 0
        while not stop.wait(pause):
            if (now := progress()) > seen:
                seen = now
                disturb()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


DISTURBANCES = {
    "scripts flushed": lambda client: client.script_flush(),
    "command connections killed": lambda client: client.client_kill_filter(
        _type="normal", skipme=True
    ),
    "listening connections killed": lambda client: client.client_kill_filter(_type="pubsub"),
}


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_workers_cycle_through_a_disturbance_without_an_error(
    world: World, name: str, private_server: EmbeddedServer, disturbance: str
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=20)
    inside: list[int] = []
    most: list[int] = []

    def body(hold: Hold) -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    with private_server.client() as client, private_server.client() as watching:
        with repeated(lambda: DISTURBANCES[disturbance](client), lambda: len(most)):
            end = time.monotonic() + 0.6
            while time.monotonic() < end or len(most) <= 10:
                for future in [world.start(world.block, lock, body) for _ in range(5)]:
                    future.result(PATIENCE)
        assert {1} == set(most)
        assert set() == Observer(watching).left_of(name)


def test_waiters_queue_again_and_holders_are_told_when_the_server_was_restarted_empty(
    world: World, name: str, private_server: EmbeddedServer
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=20)
    hold = held(world, lock)
    waiters = [world.start(world.acquire, lock) for _ in range(3)]
    with private_server.client() as client:
        Observer(client).until_waiters(name, 3)
    private_server.kill()
    private_server.restart()
    back = time.monotonic()
    until(lambda: hold.is_lost)
    granted: list[Hold] = []
    while len(granted) < 3:
        until(lambda: any(w.done() for w in waiters))
        for waiter in [w for w in waiters if w.done()]:
            waiters.remove(waiter)
            granted.append(waiter.result())
            world.release(granted[-1])
    assert time.monotonic() - back < 10  # long before a lease ends
    fences = [each.fencing_token for each in granted]
    assert sorted(set(fences)) == fences
    assert hold.fencing_token < fences[0]
    with pytest.raises(LockLost):
        world.release(hold)


def test_a_server_that_is_down_is_named_without_its_password(world: World, name: str) -> None:
    lock = Lock(name, using="redis://somebody:verysecret@127.0.0.1:1/3", wait=5)
    started = time.monotonic()
    with pytest.raises(LockBackendError, match=r"redis://127\.0\.0\.1:1/3") as caught:
        world.acquire(lock)
    assert time.monotonic() - started < 3
    cause: BaseException | None = caught.value
    while cause is not None:
        assert "verysecret" not in f"{cause!r} {cause}"
        cause = cause.__cause__ or cause.__context__


def test_a_server_that_died_is_reported_by_release_and_acquire(
    world: World, name: str, private_server: EmbeddedServer
) -> None:
    hold = held(world, Lock(name, using=private_server.url, lease=2, renew=False))
    private_server.kill()
    started = time.monotonic()
    with pytest.raises(LockBackendError):
        world.release(hold)
    with pytest.raises(LockBackendError):
        world.acquire(Lock(name, using=private_server.url), wait=0)
    assert time.monotonic() - started < 5
    until(lambda: hold.is_lost)


def test_a_wrong_password_is_an_error_of_ours(
    world: World, name: str, private_server: EmbeddedServer
) -> None:
    with private_server.client() as client:
        client.config_set("requirepass", "correct")
    with pytest.raises(LockBackendError) as caught:
        world.acquire(Lock(name, using=f"{private_server.url}?password=incorrect"), wait=0)
    assert "incorrect" not in str(caught.value)


def test_a_key_of_another_type_is_reported_and_left_alone(
    world: World, name: str, server_side: Observer
) -> None:
    key = keys_of(name).lock
    server_side.client.sadd(key, "somebody else's")
    with pytest.raises(LockBackendError, match="another type"):
        world.acquire(Lock(name), wait=0.1)
    assert {b"somebody else's"} == server_side.client.smembers(key)
    server_side.client.delete(key)
    assert set() == server_side.left_of(name)


def test_the_connection_may_come_from_a_callable_or_a_url_that_decodes(
    world: World, name: str, redis_server: EmbeddedServer
) -> None:
    specs = [
        "tests.contract.clients.decoding",
        "tests.contract.clients.plain",
        f"{redis_server.url}?decode_responses=True&db=0",
    ]
    for spec in specs:
        hold = held(world, Lock(name, using=spec))
        waiter = world.start(world.acquire, Lock(name))
        with redis.Redis.from_url(redis_server.url) as client:
            Observer(client).until_waiters(name, 1)
        world.release(hold)
        served(world, waiter)
