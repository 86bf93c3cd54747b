"""A primary that Sentinels watch dies or is demoted: clients find and obey its successor."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any, NamedTuple

import pytest
import redis

from redis_locks import Hold, Lock, LockBackendError, LockLost
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import in_thread
from tests.faults.sentinels import Watched
from tests.ports import free_ports
from tests.support import leases, stored, timings
from tests.support.connections import sentinels_say
from tests.support.world import PATIENCE, Observer, Tasks, Threads, World, held, keys_of, until

PRIMARY = {"is_master": True, "is_sdown": False, "is_odown": False, "num-other-sentinels": 0}


class Two(NamedTuple):
    """The primary, and another server."""

    ports: list[int]
    primary: redis.Redis
    successor: redis.Redis

    def demote(self) -> None:
        """Let the other server be the primary. The connections of this one stay open."""
        self.primary.execute_command("REPLICAOF", "127.0.0.1", "1")
        self.ports.reverse()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    """Two servers; the first of the ports is the primary's, whenever a Sentinel is asked."""
    ports = free_ports(2)
    sentinels_say(monkeypatch, lambda: {"bank": {**PRIMARY, "ip": "127.0.0.1", "port": ports[0]}})
    options = [("--port", str(port), "--bind", "127.0.0.1") for port in ports]
    with (
        EmbeddedServer(options[0], use_environment=False) as first,
        EmbeddedServer(options[1], use_environment=False) as second,
        first.client() as old,
        second.client() as new,
    ):
        yield Two(ports, old, new)


@pytest.fixture
def pair() -> Iterator[Watched]:
    """Two servers and a Sentinel that only says which one is the primary."""
    with Watched(sentinels=1, down_after_ms=60_000) as watched:
        yield watched


@pytest.fixture
def both() -> Iterator[list[World]]:
    """Both worlds at once, because a fail-over takes its time."""
    worlds: list[World] = [Threads(), Tasks()]
    yield worlds
    for world in worlds:
        world.close()


def test_a_killed_primary_has_a_successor_for_holders_waiters_and_newcomers(
    both: list[World], name: str
) -> None:
    with Watched() as watched:

        def lock(what: str, world: World) -> Lock:
            return Lock(f"{name}:{what}:{world.kind}", using=watched.url, wait=PATIENCE, lease=60)

        kept = [held(world, lock("kept", world)) for world in both]
        lost = [held(world, lock("lost", world)) for world in both]
        waiters = [world.start(world.acquire, lock("kept", world)) for world in both]
        with watched.a_writable_replica() as replica:
            for hold in (*kept, *lost):
                until(lambda name=hold.name: Observer(replica).holder(name))  # type: ignore[misc]
            for hold in kept:
                Observer(replica).until_waiters(hold.name, 1)
            killed = watched.kill()
            # Not before: a renewal would still come in and write half a holder.
            stored.drop_holder(replica, *(keys_of(hold.name).lock for hold in lost))
        newcomers = [world.start(world.acquire, lock("new", world)) for world in both]
        watched.until_replaced(killed)
        with watched.client() as client:
            for world, hold in zip(both, lost, strict=True):
                _is_told(world, hold)
                _next_holder(hold, held(world, lock("lost", world)), world)
            for world, hold, waiter in zip(both, kept, waiters, strict=True):
                assert hold.token == Observer(client).holder(hold.name)
                world.release(hold)
                _next_holder(hold, waiter.result(PATIENCE), world)
            for world, newcomer in zip(both, newcomers, strict=True):
                world.release(newcomer.result(PATIENCE))
            for hold in (*kept, *lost):
                assert set() == Observer(client).left_of(hold.name)


def _is_told(world: World, hold: Hold) -> None:
    with pytest.raises(LockLost):
        world.extend(hold, 60)
    assert hold.is_lost
    with pytest.raises(LockLost):
        world.release(hold)


def _next_holder(hold: Hold, successor: Hold, world: World) -> None:
    assert successor.fencing_token > hold.fencing_token
    successor.check()
    world.release(successor)


def test_a_primary_that_became_read_only_is_not_the_one_that_is_asked_again(
    world: World, name: str, two: Two
) -> None:
    lock = Lock(name, using="redis+sentinel://127.0.0.1:1/bank", wait=PATIENCE)
    world.release(held(world, lock))
    two.demote()
    hold = held(world, lock)
    assert hold.token == Observer(two.successor).holder(name)
    assert None is Observer(two.primary).holder(name)
    two.successor.execute_command("REPLICAOF", "127.0.0.1", "1")
    two.primary.execute_command("REPLICAOF", "NO", "ONE")
    two.ports.reverse()
    with pytest.raises(LockLost):
        world.extend(hold, 5)
    with pytest.raises(LockLost):
        world.release(hold)


def test_a_process_listens_on_the_successor_of_a_demoted_primary(
    world: World, two: Two, name: str, settings: Any
) -> None:
    """Else its holds with `crash_release` would seem to be those of a dead process."""
    settings.REDIS_LOCKS = {"PREFIX": name}  # nobody has listened there before
    lock = Lock(name, using="redis+sentinel://127.0.0.1:1/bank", wait=PATIENCE, crash_release=True)
    with timings.connections_are_tested_after(0.5):
        world.release(held(world, lock))
        two.demote()
        hold = held(world, lock)
        until(lambda: two.successor.pubsub_channels(f"{name}:holders:*"))
        assert in_thread(lock.acquire, wait=0) is None
        world.release(hold)


def test_a_crowd_of_threads_listens_on_the_successor_of_a_demoted_primary(
    two: Two, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.waiters_ask_again_after(monkeypatch, 2 * PATIENCE)
    options = {"wait": 2 * PATIENCE, "lease": 2 * PATIENCE}
    lock = Lock(name, using="redis+sentinel://127.0.0.1:1/bank", **options)
    threads = Threads()

    def cycle() -> None:
        with lock.hold():
            pass

    def serve_a_crowd(server: redis.Redis) -> None:
        hold = held(threads, lock)
        crowd = [threads.start(cycle) for _ in range(12)]
        Observer(server).until_waiters(name, 12)
        hold.release()
        for each in crowd:
            each.result(PATIENCE)

    serve_a_crowd(two.primary)
    two.demote()
    serve_a_crowd(two.successor)


@pytest.mark.long
def test_a_demoted_primary_is_left_for_its_successor_by_renewal_and_waiters(
    world: World, pair: Watched, name: str
) -> None:
    lock = Lock(name, using=pair.url, wait=PATIENCE, lease=0.9)
    hold = held(world, lock)
    waiter = world.start(world.acquire, lock)
    with pair.client() as client:
        Observer(client).until_waiters(name, 1)
    pair.demote()
    leases.until_renewed(hold)
    world.extend(hold, 60)
    with pair.client() as client:
        world.release(hold)
        served = waiter.result(PATIENCE)
        assert served.token == Observer(client).holder(name)
        world.release(served)


def test_without_any_sentinel_acquire_fails_at_once(world: World, name: str) -> None:
    hosts = ",".join(f"127.0.0.1:{port}" for port in free_ports(3))
    started = monotonic()
    with pytest.raises(LockBackendError, match=r"no Sentinel answers: .*Error"):
        world.acquire(Lock(name, using=f"redis+sentinel://{hosts}/bank", wait=None))
    assert monotonic() < started + PATIENCE / 2
