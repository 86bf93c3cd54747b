"""A partition moves from one node to another while its locks are in use."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redis_locks import Hold, Lock, LockBackendError, Semaphore, inspection
from tests.cluster.nodes import Node, Nodes
from tests.cluster.waiters import until_waiters
from tests.support import leases, stored
from tests.support.keys import grant_channel, index_key, lock_keys
from tests.support.world import PATIENCE, Tasks, Threads, World, held, until

pytestmark = pytest.mark.ci

DEBIANS_SERVER = "/usr/bin/redis-server"


@pytest.fixture(scope="module", params=["usual", pytest.param("redis", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest) -> Iterator[None]:
    """The usual server, and Redis itself where there is one.

    CI runs all tests on Redis in a step of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "redis":
            if not Path(DEBIANS_SERVER).exists():
                pytest.skip("there is no redis-server")
            patch.setenv("REDIS_LOCKS_SERVER", DEBIANS_SERVER)
        yield


@pytest.fixture(scope="module")
def nodes(server: None) -> Iterator[Nodes]:
    with Nodes() as made:
        yield made


@pytest.mark.verdict
def test_a_slot_moved_key_by_key_under_load_harms_nobody(on_nodes: Nodes, name: str) -> None:
    move_under_load(on_nodes, name, lambda slot, to: on_nodes.move(slot, to, pause=0.1))


@pytest.mark.verdict
def test_a_slot_moved_in_one_step_under_load_harms_nobody(on_nodes: Nodes, name: str) -> None:
    if not on_nodes.can_move_at_once():
        pytest.skip("the server moves slots key by key only")
    move_under_load(on_nodes, name, on_nodes.move_at_once)


class Count:
    """What threads and tasks count up under a lock, while they take others of its partition."""

    def __init__(self, exclusive: str, shared: str, permit: str) -> None:
        self.seen = 0
        self.tokens: list[int] = []
        self.stop = threading.Event()
        self._inside = 0
        self._lock = Lock(exclusive, wait=PATIENCE, lease=3)
        self._shared = Lock(shared, mode="shared", wait=PATIENCE)
        self._permits = Semaphore(permit, 2, wait=PATIENCE)

    def _enter(self) -> int:
        self._inside += 1
        assert 1 == self._inside
        return self.seen

    def _leave(self, before: int, hold: Hold) -> None:
        self.seen = before + 1
        self.tokens.append(hold.fencing_token)
        self._inside -= 1

    def up(self) -> int:
        mine = 0
        while not self.stop.is_set():
            with self._lock as hold:
                before = self._enter()
                time.sleep(0.001)
                self._leave(before, hold)
                mine += 1
            with self._shared, self._permits:
                pass
        return mine

    async def aup(self) -> int:
        mine = 0
        while not self.stop.is_set():
            async with self._lock as hold:
                before = self._enter()
                await asyncio.sleep(0.001)
                self._leave(before, hold)
                mine += 1
            async with self._shared, self._permits:
                pass
        return mine


def move_under_load(nodes: Nodes, prefix: str, move: Callable[[int, Node], None]) -> None:
    """Count up under one lock from threads and tasks, while its partition goes round all nodes."""
    partition = 3
    slot = nodes.slot(prefix, partition)
    count = Count(*nodes.names_in(partition, 3))
    threads, tasks = worlds = Threads(), Tasks()
    kept = [
        held(world, Lock(each, lease=1))
        for world, each in zip(worlds, nodes.names_in(partition, 5)[3:], strict=True)
    ]
    counters = [threads.start(count.up) for _ in range(3)]
    counters += [tasks.submit(count.aup()) for _ in range(3)]
    for number in range(3):
        owner = nodes.owner(prefix, partition)
        targets = [node for node in nodes.masters if node is not owner]
        move(slot, targets[number % 2])
        reached = count.seen
        until(lambda reached=reached: count.seen > reached + 10)  # type: ignore[misc]
    count.stop.set()
    counts = [counter.result(PATIENCE) for counter in counters]
    assert sum(counts) == count.seen
    assert min(counts) > 0
    assert count.tokens == sorted(set(count.tokens))
    for world, hold in zip(worlds, kept, strict=True):
        hold.check()
        world.release(hold)
    assert [] == inspection.locks()
    tasks.close()


def a_move(nodes: Nodes, prefix: str, partition: int) -> tuple[str, int, Node, Node]:
    """Return a lock, its slot, where that is and where it may go."""
    source = nodes.owner(prefix, partition)
    target = next(node for node in nodes.masters if node is not source)
    (lock,) = nodes.names_in(partition, 1)
    return lock, nodes.slot(prefix, partition), source, target


def test_nothing_is_written_where_a_part_of_the_keys_has_left(
    on_nodes: Nodes, world: World, name: str
) -> None:
    """Otherwise a release would tell a waiter that it holds, and then fail to write it down."""
    each, slot, source, target = a_move(on_nodes, name, 5)
    lock = Lock(each, wait=PATIENCE, lease=60)
    hold = held(world, lock)
    waiter = world.start(world.acquire, lock)
    until_waiters(each, 1)
    on_nodes.begin_to_move(slot, source, target)
    on_nodes.carry(source, target, index_key(name, 5).decode())
    releasing = world.start(world.release, hold)
    refused = source.errors()
    until(lambda: source.errors() > refused + 2)
    with source.server.client() as client:
        assert hold.token.encode() == stored.holder(client, lock_keys(name, 5, each).lock)
    assert not waiter.done()
    assert not releasing.done()
    on_nodes.finish_moving(slot, source, target)
    releasing.result(PATIENCE)
    successor = waiter.result(PATIENCE)
    assert successor.fencing_token > hold.fencing_token
    world.release(successor)


def test_a_hold_is_renewed_where_its_keys_are_already(
    on_nodes: Nodes, world: World, name: str
) -> None:
    each, slot, source, target = a_move(on_nodes, name, 7)
    hold = held(world, Lock(each, lease=1))
    on_nodes.begin_to_move(slot, source, target)
    on_nodes.carry(source, target, *source.ask("GETKEYSINSLOT", slot, 100))
    for _ in range(3):
        leases.until_renewed(hold)
    hold.check()
    on_nodes.finish_moving(slot, source, target)
    world.release(hold)


@pytest.mark.parametrize("mode", ["shared", "permit:2"])
@pytest.mark.parametrize("last", ["sharers", "lock", "index"])
def test_who_shares_a_lock_goes_on_while_its_keys_move_one_by_one(
    on_nodes: Nodes, world: World, name: str, mode: str, last: str
) -> None:
    """The servers choose the order.

    One that has the lock and not its sharers must not forget them.
    """
    each, slot, source, target = a_move(on_nodes, name, 8)
    lock = Semaphore(each, 2, wait=0) if mode == "permit:2" else Lock(each, mode=mode, wait=0)
    other = Lock(each, wait=0) if mode == "shared" else lock
    one, two = held(world, lock), held(world, lock)
    keys = source.ask("GETKEYSINSLOT", slot, 100)
    (latest,) = (key for key in keys if key.startswith(f"{name}{{8}}:{last}"))
    on_nodes.begin_to_move(slot, source, target)
    on_nodes.carry(source, target, *(key for key in keys if key != latest))
    seen = source.errors() + target.errors()
    extending = world.start(world.extend, one, 120)
    until(lambda: source.errors() + target.errors() > seen + 2)
    on_nodes.carry(source, target, latest)
    on_nodes.finish_moving(slot, source, target)
    extending.result(PATIENCE)
    assert world.start(world.acquire, other).result(PATIENCE) is None
    for hold in (one, two):
        hold.check()
        world.release(hold)
    world.release(held(world, other))


@pytest.mark.long
def test_a_wait_of_zero_seconds_ends_in_an_error_while_a_slot_moves(
    on_nodes: Nodes, world: World, name: str
) -> None:
    each, slot, source, target = a_move(on_nodes, name, 9)
    on_nodes.begin_to_move(slot, source, target)
    with pytest.raises(LockBackendError):
        world.acquire(Lock(each, wait=0))
    on_nodes.finish_moving(slot, source, target)
    world.release(held(world, Lock(each, wait=0)))


def test_a_waiter_hears_of_the_hand_off_where_its_lock_is_now(
    on_nodes: Nodes, world: World, name: str
) -> None:
    each, slot, _, target = a_move(on_nodes, name, 11)
    lock = Lock(each, wait=PATIENCE, lease=60)
    hold = held(world, lock)
    waiter = world.start(world.acquire, lock)
    until_waiters(each, 1)
    on_nodes.move(slot, target)
    channels = grant_channel(name, "").removesuffix(":grants:") + "{*"
    until(lambda: target.client.execute_command("PUBSUB SHARDCHANNELS", channels))
    world.release(hold)
    successor = waiter.result(PATIENCE)
    world.release(successor)
