"""A server that answers but refuses: out of memory, a replica, scripts gone, paused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest

from redis_locks import Hold, Lock, LockBackendError
from redis_locks.testing.server import EmbeddedServer
from tests.support import timings
from tests.support.world import PATIENCE, Observer, World, held, in_line, until_renewed


@pytest.fixture
def server_side(private_server: EmbeddedServer, name: str) -> Iterator[Observer]:
    with private_server.client() as client:
        made = Observer(client)
        yield made
        assert set() == made.left_of(name)


class Refusal(NamedTuple):
    """What makes a server refuse to write, what ends that, and what the error says of it."""

    begin: tuple[str, ...]
    end: tuple[str, ...]
    told: str


MEMORY = Refusal(  # every command that may need some
    ("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "out of memory"
)
REPLICA = Refusal(("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "read-only replica")
TOO_FEW = Refusal(
    ("CONFIG", "SET", "min-replicas-to-write", "1"),
    ("CONFIG", "SET", "min-replicas-to-write", "0"),
    "too few replicas that keep up",
)


@pytest.mark.parametrize("wait", [0, PATIENCE])
@pytest.mark.parametrize("refusal", [MEMORY, REPLICA, TOO_FEW], ids=lambda refusal: refusal.told)
def test_a_refusal_of_a_free_lock_is_named_as_such_and_leaves_nothing_half_written(
    world: World,
    name: str,
    private_server: EmbeddedServer,
    server_side: Observer,
    refusal: Refusal,
    wait: float,
) -> None:
    lock = Lock(name, using=private_server.url, wait=wait)
    server_side.client.execute_command(*refusal.begin)
    with pytest.raises(LockBackendError, match=refusal.told):
        world.acquire(lock)
    assert [] == server_side.client.keys("*")
    server_side.client.execute_command(*refusal.end)
    world.release(held(world, lock))


def test_a_server_without_memory_refuses_a_waiter_and_nothing_is_half_written(
    world: World,
    name: str,
    private_server: EmbeddedServer,
    server_side: Observer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timings.waiters_ask_again_after(monkeypatch, 0.1)  # the server may notice only then
    lock = Lock(name, using=private_server.url, wait=PATIENCE)
    hold = held(world, lock)
    before = set(server_side.client.keys("*"))
    server_side.client.execute_command(*MEMORY.begin)
    with pytest.raises(LockBackendError):
        world.acquire(lock)
    assert before == set(server_side.client.keys("*"))
    assert hold.token == server_side.holder(name)
    world.release(hold)


def queued(
    world: World, lock: Lock, server_side: Observer
) -> tuple[Hold, Future[Any], Future[Any]]:
    """A hold, and two that wait for it in this order: one to the end, one for half a second."""
    hold = held(world, lock)
    waiter = in_line(world, lock, server_side)
    leaving = in_line(world, lock, server_side, place=2, wait=0.5)
    return hold, waiter, leaving


def test_holds_and_waiters_of_before_go_on_without_memory(
    world: World, name: str, private_server: EmbeddedServer, server_side: Observer
) -> None:
    """Renewal, extension, hand-off, giving up and release need no memory to begin with."""
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=2)
    hold, waiter, leaving = queued(world, lock, server_side)
    server_side.client.execute_command(*MEMORY.begin)
    until_renewed(hold)
    world.extend(hold, 5)
    assert leaving.result(PATIENCE) is None
    server_side.until_waiters(name, 1)
    world.release(hold)
    successor = waiter.result(PATIENCE)
    assert successor.token == server_side.holder(name)
    world.release(successor)


def test_a_primary_that_is_a_replica_for_a_while_keeps_what_it_has(
    world: World, name: str, private_server: EmbeddedServer, server_side: Observer
) -> None:
    hold = held(world, Lock(name, using=private_server.url, lease=3))
    server_side.client.execute_command(*REPLICA.begin)
    with pytest.raises(LockBackendError):
        world.extend(hold, 60)
    with pytest.raises(LockBackendError):
        world.acquire(Lock(name, using=private_server.url, wait=PATIENCE))
    server_side.client.execute_command(*REPLICA.end)
    assert hold.token == server_side.holder(name)
    until_renewed(hold)
    world.release(hold)


@pytest.mark.ci
def test_a_place_that_could_not_be_given_up_is_not_granted_for_nobody(
    world: World,
    name: str,
    private_server: EmbeddedServer,
    server_side: Observer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timings.waiters_ask_again_after(monkeypatch, 0.1)
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=PATIENCE)
    hold = held(world, lock)
    waiter = in_line(world, lock, server_side)
    server_side.client.execute_command(*REPLICA.begin)
    with pytest.raises(LockBackendError):
        waiter.result(PATIENCE)  # it says now and then that it is there
    assert 1 == server_side.waiters(name)
    server_side.client.execute_command(*REPLICA.end)
    world.release(hold)
    world.release(held(world, lock, wait=PATIENCE / 2))


def test_a_server_that_forgets_its_scripts_meanwhile_still_hands_off_renews_and_times_out(
    world: World, name: str, private_server: EmbeddedServer, server_side: Observer
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=2)
    hold, waiter, leaving = queued(world, lock, server_side)
    server_side.client.script_flush()
    until_renewed(hold)
    server_side.client.script_flush()
    assert leaving.result(PATIENCE) is None
    server_side.client.script_flush()
    world.release(hold)
    world.release(waiter.result(PATIENCE))


@pytest.mark.parametrize("kind", ["ALL", pytest.param("WRITE", marks=pytest.mark.ci)])
def test_a_paused_server_delays_and_nothing_else(
    world: World, name: str, private_server: EmbeddedServer, server_side: Observer, kind: str
) -> None:
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=6)
    hold = held(world, lock)
    waiter = in_line(world, lock, server_side)
    server_side.client.execute_command("CLIENT", "PAUSE", 700, kind)
    world.extend(hold, 7)
    world.release(hold)
    granted = waiter.result(PATIENCE)
    assert granted.fencing_token > hold.fencing_token
    server_side.client.execute_command("CLIENT", "PAUSE", 700, kind)
    world.release(granted)
