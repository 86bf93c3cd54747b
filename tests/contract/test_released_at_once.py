"""Threads or tasks that release one hold at once: one does it, and tells what came of it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from redis_locks import Hold, Lock, LockLost, inspection
from tests.support.world import Observer, granted

RIVALS = 3


def losses(pool: ThreadPoolExecutor, hold: Hold) -> int:
    """Release it in some threads at once; return how many were told that it is lost."""
    barrier = Barrier(RIVALS)

    def release(_: int) -> bool:
        barrier.wait()
        try:
            hold.release()
        except LockLost:
            return True
        return False

    return sum(pool.map(release, range(RIVALS)))


def test_threads_that_release_at_once_lose_nothing(name: str, server_side: Observer) -> None:
    with ThreadPoolExecutor(RIVALS) as pool:
        for _ in range(200):
            hold = granted(Lock(name).acquire(wait=0))
            assert 0 == losses(pool, hold)
            assert 0 == hold.remaining
    assert set() == server_side.left_of(name)


def test_tasks_that_release_at_once_lose_nothing(name: str) -> None:
    async def main() -> None:
        for _ in range(50):
            hold = granted(await Lock(name).aacquire(wait=0))
            await asyncio.gather(*(hold.arelease() for _ in range(RIVALS)))
            assert 0 == hold.remaining

    asyncio.run(main())


def test_of_threads_that_release_a_lost_hold_one_is_told(name: str) -> None:
    with ThreadPoolExecutor(RIVALS) as pool:
        for _ in range(50):
            hold = granted(Lock(name, renew=False).acquire(wait=0))
            assert 1 == inspection.force_release(name).ended
            assert 1 == losses(pool, hold)
            assert hold.is_lost
