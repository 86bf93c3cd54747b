"""Shared mode, semaphores and sets of locks, blocking and async."""

from __future__ import annotations

from time import monotonic

import pytest

from redis_locks import Hold, Lock, LockNotAvailable, Semaphore, inspection, redis_lock
from tests.support import scripts
from tests.support.keys import grant_channel, set_keys
from tests.support.world import PATIENCE, Observer, World, existing, granted, held, queue, served


def test_shared_holders_hold_together_and_exclude_an_exclusive_one(
    world: World, name: str, server_side: Observer
) -> None:
    shared = Lock(name, mode="shared")
    first, second = held(world, shared), held(world, shared)
    assert second.fencing_token > first.fencing_token
    assert world.acquire(Lock(name), wait=0) is None
    (writer,) = queue(world, Lock(name), server_side, 1)
    assert world.acquire(shared, wait=0) is None  # it would overtake the writer
    world.release(first)
    world.release(second)
    hold = granted(writer.result(PATIENCE))
    assert world.acquire(shared, wait=0) is None
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_shared_waiters_are_let_in_together(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    readers = queue(world, Lock(name, mode="shared"), server_side, 3)
    world.release(hold)
    holds = [reader.result(PATIENCE) for reader in readers]
    info = existing(name)
    assert ["shared"] * 3 == [holder.mode for holder in info.holders]
    assert {hold.token for hold in holds if hold} == {holder.token for holder in info.holders}
    for each in holds:
        assert each is not None
        world.release(each)


def test_a_waiter_that_dies_keeps_those_behind_it_from_sharing_for_a_moment_only(
    world: World, name: str, server_side: Observer
) -> None:
    reader = held(world, Lock(name, mode="shared"))
    keys = set_keys("redis_locks", 0, (name,))
    dies = ("dies.1", 60_000, "exclusive", "who", "dies", -1, 1)
    with server_side.client.pubsub() as connection:
        connection.subscribe(grant_channel("redis_locks", "dies"))
        assert connection.get_message(timeout=PATIENCE)
        server_side.client.eval(scripts.ACQUIRE.text, len(keys), *keys, *dies)
        behind = queue(world, Lock(name, mode="shared"), server_side, 3)
    died = monotonic()
    for each in behind:
        served(world, each)
    assert monotonic() - died < 3
    world.release(reader)
    assert set() == server_side.left_of(name)


def test_a_shared_hold_is_renewed_and_extended(world: World, name: str) -> None:
    hold = held(world, Lock(name, mode="shared", lease=5))
    world.extend(hold, 60)
    assert hold.remaining > 50
    other = held(world, Lock(name, mode="shared", lease=5))
    assert other.remaining <= 5
    world.release(hold)
    world.release(other)


def test_a_semaphore_has_so_many_holders_and_no_more(
    world: World, name: str, server_side: Observer
) -> None:
    semaphore = Semaphore(name, 3)
    holds = [held(world, semaphore) for _ in range(3)]
    with pytest.raises(LockNotAvailable):
        world.block(semaphore.hold(wait=0), lambda _: None)
    (waiter,) = queue(world, semaphore, server_side, 1)
    world.release(holds[1])
    fourth = granted(waiter.result(PATIENCE))
    for hold in (holds[0], holds[2], fourth):
        world.release(hold)
    assert set() == server_side.left_of(name)


def test_a_semaphore_decorates(world: World, name: str) -> None:
    @Semaphore(name, 2, wait=0, on_conflict="skip")
    def work() -> int:
        info = inspection.lock(name)
        return len(info.holders) if info else 0

    hold = held(world, Semaphore(name, 2))
    assert 2 == work()
    other = held(world, Semaphore(name, 2))
    assert work() is None
    world.release(hold)
    world.release(other)


def test_a_set_is_held_and_released_as_one(world: World, name: str, server_side: Observer) -> None:
    a, b = f"{name}:a", f"{name}:b"
    lock = Lock(a, b, a)
    assert (a, b) == lock.names

    def body(hold: Hold) -> None:
        assert world_sees(a) == world_sees(b) == [hold.token]

    def world_sees(which: str) -> list[str]:
        info = inspection.lock(which)
        return [holder.token for holder in info.holders] if info else []

    world.block(lock, body)
    assert set() == server_side.left_of(a) | server_side.left_of(b)


def test_sets_in_opposite_orders_do_not_deadlock(world: World, name: str) -> None:
    a, b, c = (f"{name}:{letter}" for letter in "abc")
    sets = [Lock(a, b), Lock(b, c), Lock(c, a), Lock(c, b, a), Lock(b)]
    workers = [
        world.start(world.block, lock.hold(wait=PATIENCE), lambda hold: hold.check())
        for lock in sets * 6
    ]
    for worker in workers:
        worker.result(PATIENCE)


def test_a_set_that_loses_one_lock_is_lost(world: World, name: str) -> None:
    a, b = f"{name}:a", f"{name}:b"
    hold = held(world, Lock(a, b))
    inspection.force_release(b)
    with pytest.raises(Exception, match="lost"):
        world.do(hold, "extend", 60)
    assert hold.is_lost
    with pytest.raises(Exception, match="lost"):
        world.release(hold)
    assert inspection.lock(a) is None


def test_a_function_can_hold_a_set(name: str) -> None:
    @redis_lock(f"{name}:{{sender}}", f"{name}:{{recipient}}")
    def transfer(sender: int, recipient: int) -> list[str]:
        return sorted(info.name for info in inspection.locks() if info.name.startswith(name))

    assert [f"{name}:1", f"{name}:2"] == transfer(2, 1)


def test_a_set_has_1000_names_at_most() -> None:
    with pytest.raises(ValueError, match="1 to 1000 names"):
        Lock(*(str(number) for number in range(1001)))
