"""Thousands of tasks of a loop wait for a lock: in order, over one connection, some kB each."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import psutil
import pytest
import redis

from redis_locks import Hold, Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support import stored
from tests.support.keys import index_key
from tests.support.world import PATIENCE, Observer, granted, keys_of

KEPT_HERE = 20_000
KEPT_THERE = 1_000
"""Bytes of this process, and of the server, that a waiter may take; it is 8,000 and 300."""
CONNECTIONS = 10
"""The most connections, however many tasks wait; it is four: the loop's, two of the thread that
renews, and the test's.
"""

AT_EACH_SIZE = pytest.mark.parametrize(
    "count",
    [1_000, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(300)])],
)

Waiting = Callable[[Hold, list["asyncio.Task[None]"], list[bytes], list[bytes]], Awaitable[None]]


def bytes_taken(client: redis.Redis) -> tuple[int, int]:
    """Return the memory of this process and that of the server."""
    gc.collect()
    return psutil.Process().memory_info().rss, client.info("memory")["used_memory"]


async def crowded(server: EmbeddedServer, name: str, count: int, then: Waiting) -> None:
    """Let so many tasks wait for a lock that is held; afterwards nothing may be left of them."""
    lock = Lock(name, using=server.url, wait=None, lease=60)
    served: list[bytes] = []

    async def work() -> None:
        async with lock as hold:
            served.append(hold.token.encode())

    await asyncio.gather(*(asyncio.create_task(work()) for _ in range(20)))  # all is loaded
    served.clear()
    first = granted(await lock.aacquire())
    try:
        await first.aextend(60)  # so that the server knows the script by which it will be renewed
        with server.client() as client:
            here, there = bytes_taken(client)
            tasks = [asyncio.create_task(work()) for _ in range(count)]
            await asyncio.to_thread(Observer(client).until_waiters, name, count)
            here_now, there_now = bytes_taken(client)
            assert (here_now - here) / count < KEPT_HERE
            assert (there_now - there) / count < KEPT_THERE
            assert len(client.client_list()) <= CONNECTIONS
            await then(first, tasks, stored.line(client, keys_of(name).lock), served)
            assert set() == Observer(client).left_of(name)
            # What long waits noted goes by itself within half a minute, and marks of questions that
            # were cut off in 20.
            passing = (b":long_waits:", b":late:")
            keys = list(client.scan_iter(count=1000))
            left = {key for key in keys if not any(each in key for each in passing)}
            assert left <= {keys_of(name).lock, index_key("redis_locks", 0)}
            assert stored.is_idle(client, keys_of(name).lock)
    finally:
        if not first.released:  # so that a failure says itself, not that a hold was dropped
            await first.arelease()


@AT_EACH_SIZE
def test_tasks_are_served_in_the_order_in_which_they_came(
    private_server: EmbeddedServer, name: str, count: int
) -> None:
    async def let_them(
        first: Hold, tasks: list[asyncio.Task[None]], queue: list[bytes], served: list[bytes]
    ) -> None:
        await first.arelease()
        await asyncio.gather(*tasks)
        assert count == len(queue)
        assert queue == served

    asyncio.run(crowded(private_server, name, count, let_them))


@AT_EACH_SIZE
def test_tasks_that_are_cancelled_all_at_once_leave_nothing(
    private_server: EmbeddedServer, name: str, count: int
) -> None:
    async def cancel_them(
        first: Hold, tasks: list[asyncio.Task[None]], queue: list[bytes], served: list[bytes]
    ) -> None:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {asyncio.CancelledError} == {type(each) for each in ended}
        await first.arelease()
        last = granted(await Lock(name, using=private_server.url).aacquire(wait=PATIENCE))
        await last.arelease()
        assert [] == served

    asyncio.run(crowded(private_server, name, count, cancel_them))
