"""Cancelling at any moment, and interrupting at almost any, leaves nothing behind."""

from __future__ import annotations

import asyncio
import random

import pytest

from redis_locks import Hold, Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support.children import run_script
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


WITHOUT_STACK = """
import inspect, sys, threading
from contextlib import ExitStack, suppress
import django, redis
django.setup()
from redis_locks import Lock
from tests.support.world import Observer, until

def descend(levels, lock):
    return descend(levels - 1, lock) if levels > 0 else lock.acquire()

def wait_with(room, lock):
    depth = len(inspect.stack(0))
    with suppress(RecursionError):
        descend(sys.getrecursionlimit() - depth - room, lock)

url, name = sys.argv[1:]
locks = [Lock(f"{name}:{room}", wait=0.02, lease=60, using=url) for room in range(10, 50)]
with ExitStack() as stack:
    for room, lock in enumerate(locks, 10):
        stack.enter_context(lock)
        waiting = threading.Thread(target=wait_with, args=(room, lock))
        waiting.start()
        waiting.join()
    observer = Observer(redis.Redis.from_url(url))
    # Of 40; without the background 21.
    until(lambda: sum(bool(observer.waiters(lock.name)) for lock in locks) < 4)
"""


def test_hardly_a_place_is_left_where_python_has_no_stack_left(
    redis_server: EmbeddedServer, name: str
) -> None:
    """Taking back what was asked for needs a deeper stack than asking: the background has one.

    In a process of its own, for in a stack that is full a ``with`` may not even unlock a mutex.
    """
    ended = run_script(WITHOUT_STACK, redis_server.url, name)
    assert 0 == ended.returncode, ended.stderr
