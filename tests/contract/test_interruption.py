"""Cancelling at any moment, and interrupting at almost any, leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
from contextlib import ExitStack, suppress

import pytest

from redis_locks import Hold, Lock
from tests.elsewhere import in_thread
from tests.support.interrupts import until_background_is_done
from tests.support.world import PATIENCE, Observer, Tasks, held, queue

pytestmark = pytest.mark.ci


async def _cancelled_after(lock: Lock, seconds: float, phases: list[str]) -> None:
    async def cycle() -> None:
        while True:
            phases.append("acquire")
            async with lock.hold():
                phases.append("body")
                await asyncio.sleep(0)
                phases.append("release")

    task = asyncio.create_task(cycle())
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_at_random_moments_leaves_a_free_lock_free(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    lock = Lock(name, lease=30)
    tasks.block(lock, lambda _: None)
    chance = random.Random(1)
    ended_in: set[str] = set()
    for _ in range(200):
        phases: list[str] = []
        tasks.run(_cancelled_after(lock, chance.uniform(0, 0.004), phases))
        ended_in.update(phases[-1:])
        assert set() == server_side.left_of(name)
    assert {"acquire", "release"} <= ended_in


def test_cancelling_at_random_moments_under_contention_loses_no_grant(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    lock = Lock(name, lease=30, wait=PATIENCE)
    chance = random.Random(2)

    async def storm() -> None:
        await asyncio.gather(
            *(_cancelled_after(lock, chance.uniform(0, 0.03), []) for _ in range(20))
        )

    for _ in range(10):
        tasks.run(storm())
        assert set() == server_side.left_of(name)


def test_cancelling_a_waiter_takes_it_out_of_the_queue(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    hold = held(tasks, Lock(name))
    waiters = queue(tasks, Lock(name), server_side, 3)
    waiters[1].cancel()
    server_side.until_waiters(name, 2)
    tasks.release(hold)
    for waiter in (waiters[0], waiters[2]):
        tasks.release(waiter.result(PATIENCE))
    assert set() == server_side.left_of(name)


def test_a_timeout_of_the_caller_counts_as_cancellation(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    hold = held(tasks, Lock(name))

    async def impatient() -> None:
        async with asyncio.timeout(0.05):
            await Lock(name).aacquire(wait=None)

    with pytest.raises(TimeoutError):
        tasks.run(impatient())
    assert 0 == server_side.waiters(name)
    tasks.release(hold)


def test_cancelling_twice_does_not_cut_the_cleaning_up_short(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    async def acquired() -> Hold | None:
        return await Lock(name, lease=30).aacquire()

    async def cancelled_twice() -> None:
        task = asyncio.create_task(acquired())
        await asyncio.sleep(chance.uniform(0, 0.001))
        task.cancel()
        await asyncio.sleep(chance.uniform(0, 0.0005))
        task.cancel()
        try:
            hold = await task
        except asyncio.CancelledError:
            return
        assert hold is not None
        await hold.arelease()

    chance = random.Random(3)
    for _ in range(50):
        tasks.run(cancelled_twice())
        assert set() == server_side.left_of(name)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_hardly_a_place_is_left_where_python_has_no_stack_left(
    name: str, server_side: Observer
) -> None:
    """Taking back what was asked for needs a deeper stack than asking: the background has one."""

    def descend(levels: int, lock: Lock) -> object:
        return descend(levels - 1, lock) if levels > 0 else lock.acquire()

    def wait_with(room: int, lock: Lock) -> None:
        depth = len(inspect.stack(0))
        with suppress(RecursionError):
            descend(sys.getrecursionlimit() - depth - room, lock)

    locks = [Lock(f"{name}:{room}", wait=0.02, lease=60) for room in range(10, 50)]
    with ExitStack() as stack:
        for room, lock in enumerate(locks, 10):
            stack.enter_context(lock)
            in_thread(wait_with, room, lock)
        until_background_is_done()
        left = [lock.name for lock in locks if server_side.waiters(lock.name)]
    assert len(left) < 4, left  # of 40: without the background 21
