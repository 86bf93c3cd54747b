"""What ended goes on or goes away: renewal begins again, and a lease that is over counts no more."""

from __future__ import annotations

import asyncio
from time import sleep

import pytest

from redis_locks import Lock, Semaphore
from tests.support.world import Threads

LEASE = 0.6
"""The subject of these tests: nothing else may end it."""


def test_async_holds_are_renewed_again_after_somebody_cancelled_all_tasks(name: str) -> None:
    async def main() -> None:
        me = asyncio.current_task()
        async with Lock(f"{name}:first", lease=LEASE):
            for task in asyncio.all_tasks() - {me}:
                if task.get_name().startswith("redis_locks"):
                    task.cancel()
            await asyncio.sleep(0)
        async with Lock(name, lease=LEASE) as hold:
            await asyncio.sleep(2 * LEASE)
            hold.check()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["shared", "permit"])
def test_a_lease_that_has_ended_stands_in_nobody_s_way(name: str, kind: str) -> None:
    if kind == "shared":
        short = Lock(name, mode="shared", lease=0.3, renew=False)
        long, next_one = Lock(name, mode="shared"), Lock(name, wait=0)
    else:
        short = Semaphore(name, 2, lease=0.3, renew=False)
        long = next_one = Semaphore(name, 2, wait=0)
    world = Threads()  # in one thread, the second hold would be nested in the first
    ended = world.acquire(short)
    beside = world.acquire(long)
    assert ended is not None
    assert beside is not None
    sleep(max(0.0, ended.remaining) + 0.05)
    if kind == "shared":
        beside.release()
    taken = world.acquire(next_one)
    assert taken is not None
    taken.release()
    if kind == "permit":
        beside.release()
