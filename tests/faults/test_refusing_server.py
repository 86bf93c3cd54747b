"""A server that answers but refuses: out of memory, a replica, scripts gone, paused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from redis_locks import Lock, LockBackendError
from redis_locks.testing.server import EmbeddedServer
from tests.contract.world import PATIENCE, Observer, World, held, keys_of, until


@pytest.fixture
def control(private_server: EmbeddedServer) -> Iterator[redis.Redis]:
    with private_server.client() as client:
        yield client


def _fill(client: redis.Redis) -> None:
    """Leave no memory: every command that may need some is refused."""
    client.config_set("maxmemory", "1")


def _empty(client: redis.Redis) -> None:
    client.config_set("maxmemory", "0")


def test_a_server_without_memory_refuses_a_free_lock_and_nothing_is_half_written(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE)
    _fill(control)
    with pytest.raises(LockBackendError):
        world.acquire(lock)
    assert [] == control.keys("*")
    _empty(control)
    world.release(held(world, lock))


def test_a_server_without_memory_refuses_a_waiter_and_nothing_is_half_written(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE)
    hold = held(world, lock)
    before = set(control.keys("*"))
    _fill(control)
    with pytest.raises(LockBackendError):
        world.acquire(lock)
    assert before == set(control.keys("*"))
    assert hold.token == Observer(control).holder(name)
    world.release(hold)


def test_holds_and_waiters_of_before_go_on_without_memory(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    """Renewal, extension, hand-off, giving up and release need no memory to begin with."""
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=0.9)
    server_side = Observer(control)
    hold = held(world, lock)
    waiter = world.start(world.acquire, lock)
    server_side.until_waiters(name, 1)
    leaving = world.start(world.acquire, lock, wait=0.5)
    server_side.until_waiters(name, 2)
    _fill(control)
    deadline = hold._lease.deadline
    until(lambda: hold._lease.deadline > deadline)
    world.extend(hold, 5)
    assert leaving.result(PATIENCE) is None
    server_side.until_waiters(name, 1)
    world.release(hold)
    successor = waiter.result(PATIENCE)
    assert successor.token == server_side.holder(name)
    world.release(successor)
    assert set() == server_side.left_of(name)


def test_a_server_without_memory_is_named_as_such(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    _fill(control)
    with pytest.raises(LockBackendError, match="out of memory"):
        world.acquire(Lock(name, using=private_server.url, wait=0))


def _make_replica(client: redis.Redis) -> None:
    client.execute_command("REPLICAOF", "127.0.0.1", "1")


def _make_primary(client: redis.Redis) -> None:
    client.execute_command("REPLICAOF", "NO", "ONE")


def test_a_replica_is_named_as_such(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    _make_replica(control)
    with pytest.raises(LockBackendError, match="read-only replica"):
        world.acquire(Lock(name, using=private_server.url, wait=0))


def test_a_primary_that_wants_more_replicas_is_named_as_such(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    lock = Lock(name, using=private_server.url, wait=0)
    control.config_set("min-replicas-to-write", 1)
    with pytest.raises(LockBackendError, match="too few replicas that keep up"):
        world.acquire(lock)
    control.config_set("min-replicas-to-write", 0)
    world.release(held(world, lock))


def test_a_replica_refuses_and_nothing_is_half_written(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE)
    _make_replica(control)
    with pytest.raises(LockBackendError):
        world.acquire(lock)
    assert [] == control.keys("*")
    _make_primary(control)
    world.release(held(world, lock))


def test_a_primary_that_is_a_replica_for_a_while_keeps_what_it_has(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    hold = held(world, Lock(name, using=private_server.url, lease=3))
    _make_replica(control)
    with pytest.raises(LockBackendError):
        world.extend(hold, 60)
    with pytest.raises(LockBackendError):
        world.acquire(Lock(name, using=private_server.url, wait=PATIENCE))
    _make_primary(control)
    assert hold.token == Observer(control).holder(name)
    deadline = hold._lease.deadline
    until(lambda: hold._lease.deadline > deadline)
    world.release(hold)
    assert set() == Observer(control).left_of(name)


def test_a_server_that_forgets_its_scripts_meanwhile_still_hands_off_renews_and_times_out(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=0.9)
    server_side = Observer(control)
    hold = held(world, lock)
    waiter = world.start(world.acquire, lock)
    server_side.until_waiters(name, 1)
    leaving = world.start(world.acquire, lock, wait=0.5)
    server_side.until_waiters(name, 2)
    control.script_flush()
    deadline = hold._lease.deadline
    until(lambda: hold._lease.deadline > deadline)
    control.script_flush()
    assert leaving.result(PATIENCE) is None
    control.script_flush()
    world.release(hold)
    world.release(waiter.result(PATIENCE))
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize("kind", ["ALL", "WRITE"])
def test_a_paused_server_delays_and_nothing_else(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis, kind: str
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=6)
    hold = held(world, lock)
    waiter = world.start(world.acquire, lock)
    Observer(control).until_waiters(name, 1)
    control.execute_command("CLIENT", "PAUSE", 700, kind)
    world.extend(hold, 7)
    world.release(hold)
    granted = waiter.result(PATIENCE)
    assert granted.fencing_token > hold.fencing_token
    control.execute_command("CLIENT", "PAUSE", 700, kind)
    world.release(granted)
    assert set() == Observer(control).left_of(name)


def test_a_fencing_key_that_is_lost_alone_does_not_make_tokens_fall(
    world: World, name: str, private_server: EmbeddedServer, control: redis.Redis
) -> None:
    lock = Lock(name, using=private_server.url)
    first = held(world, lock)
    control.delete(keys_of(name).fence)
    world.release(first)
    second = held(world, lock)
    world.release(second)
    assert second.fencing_token > first.fencing_token
