"""Many tasks of one loop want a connection that is yet to be opened."""

from __future__ import annotations

import asyncio

import pytest

from redis_locks import Lock, run_once
from tests.faults.proxy import Proxy
from tests.support.world import PATIENCE

EACH = 0.005
"""Seconds between two tasks."""


@pytest.mark.parametrize("kind", ["read", "run_once"])
def test_a_link_for_large_replies_opens_while_tasks_keep_coming(
    name: str, proxy: Proxy, kind: str
) -> None:
    """Each round trip takes longer than the next task takes to come."""

    async def acquired(name: str) -> None:
        lock = Lock(name, using=proxy.url, read=[("GET", "x")], wait=PATIENCE)
        job = run_once(name, using=proxy.url)
        hold = await (lock.aacquire() if kind == "read" else job.aacquire())
        assert hold
        await hold.arelease()

    async def main() -> None:
        async with Lock(name, using=proxy.url):
            proxy.delay = 4 * EACH
        tasks: list[asyncio.Task[None]] = []
        while not any(task.done() for task in tasks):
            assert len(tasks) < 2 / EACH, "nobody got through"
            tasks.append(asyncio.create_task(acquired(f"{name}:{len(tasks)}")))
            await asyncio.sleep(EACH)
        proxy.delay = 0
        await asyncio.gather(*tasks)

    asyncio.run(main())
