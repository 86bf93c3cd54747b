"""A hold passes to the next in line: without asking the server, so often, and at the right time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from redis_locks import Hold, Lock, LockLost
from tests.support import leases, stored, timings
from tests.support.handover import one_behind, some_behind, tasks_behind
from tests.support.timings import MOST_PASSED, YOUNG
from tests.support.world import PATIENCE, Observer, Tasks, Threads, World, held, keys_of


def test_a_hold_passes_to_the_next_in_line_without_asking_the_server(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    first, waiting = some_behind(world, lock, 3)
    token = server_side.holder(name)
    before = server_side.commands()
    fences, current = [first.fencing_token], first
    for each in waiting:
        world.release(current)
        current = each.result(PATIENCE)
        assert current.remaining > 54
        assert token == current.token == server_side.holder(name)
        fences.append(current.fencing_token)
    assert 0 == server_side.commands() - before
    assert list(range(fences[0], fences[0] + 4)) == fences
    world.release(current)
    assert set() == server_side.left_of(name)
    assert held_again(world, lock) > fences[-1]


def held_again(world: World, lock: Lock) -> int:
    """The fencing token of the next hold."""
    hold = held(world, lock)
    world.release(hold)
    return hold.fencing_token


def test_after_a_batch_the_lock_is_really_released_and_the_next_in_line_asks(
    world: World, name: str, server_side: Observer
) -> None:
    current, waiting = some_behind(world, Lock(name), MOST_PASSED + 1)
    token = current.token
    other = Threads().start(Lock(name, label="another process", lease=20).acquire)
    server_side.until_waiters(name, 1)
    for each in waiting[:-1]:
        world.release(current)
        current = each.result(PATIENCE)
        assert token == current.token
    world.release(current)
    theirs = other.result(PATIENCE)
    assert theirs.fencing_token > current.fencing_token
    server_side.until_waiters(name, 1)
    theirs.release()
    last = waiting[-1].result(PATIENCE)
    assert token != last.token == server_side.holder(name)
    world.release(last)
    assert set() == server_side.left_of(name)


def test_no_fencing_token_comes_twice_when_a_process_dies_that_had_passed_its_hold_on(
    world: World, name: str, server_side: Observer
) -> None:
    # As if the server's clock had gone back: tokens do not grow by it.
    stored.set_fence(server_side.client, keys_of(name).lock, int(time.time() * 1e6) + 10**12)
    current, waiting = some_behind(world, Lock(name), 3)
    for each in waiting:
        world.release(current)
        current = each.result(PATIENCE)
    stored.drop_holder(server_side.client, keys_of(name).lock)  # its lease has ended
    successor = held(world, Lock(name, lease=20))
    assert successor.fencing_token > current.fencing_token
    world.release(successor)
    with pytest.raises(LockLost):
        world.release(current)


@pytest.mark.parametrize("share", [0.5, 3.0])
def test_a_hold_passes_only_with_the_lease_that_was_asked_for(
    world: World, name: str, server_side: Observer, share: float
) -> None:
    hold, waiter = one_behind(world, Lock(name, lease=10, renew=False))
    if share > 1:
        world.extend(hold, 10 * share)
    else:
        leases.shorten(hold, 10 * (1 - share))
    world.release(hold)
    successor = waiter.result(PATIENCE)
    assert hold.token != successor.token == server_side.holder(name)
    assert 8 < successor.remaining <= 10
    world.release(successor)


def test_a_task_gets_the_hold_that_another_thread_releases(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    lock = Lock(name)

    async def run() -> None:
        asyncio.get_running_loop().set_debug(True)  # else it may notice by accident
        try:
            hold = await lock.aacquire()
            assert hold is not None
            (heir,) = await tasks_behind(lock, 1)
            await asyncio.to_thread(hold.release)
            successor = await heir
            assert successor is not None
            assert hold.token == successor.token
            await successor.arelease()
        finally:
            asyncio.get_running_loop().set_debug(False)

    tasks.run(run())
    assert set() == server_side.left_of(name)


def test_a_second_release_at_the_same_time_leaves_the_heir_its_hold(
    world: World, name: str, server_side: Observer
) -> None:
    hold, waiter = one_behind(world, Lock(name))
    world.release(hold)
    heir = waiter.result(PATIENCE)
    leases.forget_release(hold)  # as the other thread saw it
    world.release(hold)
    assert heir.token == server_side.holder(name)
    assert not leases.stop_renewal(hold)
    assert leases.stop_renewal(heir)
    world.release(heir)
    assert set() == server_side.left_of(name)


def test_many_in_a_hurry_never_hold_at_the_same_time(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.lines_last(monkeypatch, YOUNG)
    lock = Lock(name, wait=PATIENCE)
    inside: list[int] = []
    most: list[int] = []
    fences: list[int] = []

    def body(hold: Hold) -> None:
        inside.append(1)
        most.append(len(inside))
        fences.append(hold.fencing_token)
        inside.pop()

    if isinstance(world, Tasks):
        world.run(tasks_in_turn(lock, body))
    else:
        threads_in_turn(lock, body)
    assert [1] * 320 == most
    assert sorted(set(fences)) == fences
    assert set() == server_side.left_of(name)


def threads_in_turn(lock: Lock, body: Callable[[Hold], None]) -> None:
    ready = threading.Barrier(8)

    def several() -> None:
        ready.wait(PATIENCE)
        for _ in range(40):
            with lock as hold:
                body(hold)

    for worker in [Threads().start(several) for _ in range(8)]:
        worker.result(PATIENCE)


async def tasks_in_turn(lock: Lock, body: Callable[[Hold], None]) -> None:
    async def several() -> None:
        for _ in range(40):
            async with lock as hold:
                body(hold)

    await asyncio.gather(*(several() for _ in range(8)))
