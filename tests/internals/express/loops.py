"""What cases do in an event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from redis_locks import Hold, Lock
from redis_locks.backends import backend_for
from redis_locks.drivers.async_link import AsyncLink
from tests.internals.express.stage import Stage
from tests.internals.express.ways import Case
from tests.support.world import PATIENCE, until


def looped(case: Callable[[Stage], Coroutine[Any, Any, Any]]) -> Case:
    """Run a case in an event loop of its own that is connected."""

    @wraps(case)
    def run(stage: Stage) -> Any:
        return asyncio.run(connected(stage))

    async def connected(stage: Stage) -> Any:
        await link_of(stage)
        return await case(stage)

    return run


async def link_of(stage: Stage) -> AsyncLink:
    driver, _ = await backend_for(stage.using).of_loop()
    link = await driver.checkout()
    assert isinstance(link, AsyncLink)
    return link


async def in_line(stage: Stage, lock: Lock | None = None) -> asyncio.Task[Any]:
    """Start to wait in a task; return when it knows that it stands in the queue."""
    task = asyncio.create_task((lock or stage.lock).aacquire(wait=PATIENCE))
    await asyncio.to_thread(stage.observed.until_waiters, stage.lock.name, 1)
    boxes = (await link_of(stage))._mailboxes
    await asyncio.to_thread(until, lambda: any(box.sleeper for box in [*boxes._boxes.values()]))
    return task


async def by_somebody_else(stage: Stage) -> Hold:
    """The lock is held by a thread."""
    hold = await asyncio.to_thread(stage.lock.acquire)
    assert hold
    return hold


async def end(stage: Stage, hold: Hold | None) -> None:
    assert hold
    await stage.checked(hold).arelease()
