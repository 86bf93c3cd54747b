"""The shortest way of async code does what the longer ones do, at every turn it can leave them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from redis_locks import Hold, Lock, inspection, scripts
from redis_locks.backends import backend_for
from redis_locks.drivers.async_link import AsyncLink
from tests.contract import ways
from tests.contract.stage import Stage, cancel, lose, once
from tests.contract.ways import BothWays, Case
from tests.contract.world import PATIENCE, keys_of


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
    async with asyncio.timeout(PATIENCE):
        while not any(box.sleeper for box in boxes._boxes.values()):
            await asyncio.sleep(0.001)
    return task


async def by_somebody_else(stage: Stage) -> Hold:
    """The lock is held by a thread."""
    hold = await asyncio.to_thread(stage.lock.acquire)
    assert hold
    return hold


async def end(stage: Stage, hold: Hold | None) -> None:
    assert hold
    await stage.checked(hold).arelease()


@looped
async def free(stage: Stage) -> None:
    async with stage.lock as hold:
        stage.checked(hold)


@looped
async def read_when_free(stage: Stage) -> list[Any]:
    stage.client.set(f"{stage.lock.name}:value", "7")
    async with stage.again(read=[("get", f"{stage.lock.name}:value")]) as hold:
        return list(hold.read)


@looped
async def refused(stage: Stage) -> Any:
    before = await by_somebody_else(stage)
    after = await stage.lock.aacquire(wait=0)
    before.release()
    return after


@looped
async def handed_on(stage: Stage) -> None:
    before = await by_somebody_else(stage)
    waiting = await in_line(stage)
    before.release()
    await end(stage, await waiting)


@looped
async def read_when_handed_on(stage: Stage) -> list[Any]:
    value = f"{stage.lock.name}:value"
    before = await by_somebody_else(stage)
    waiting = await in_line(stage, stage.again(read=[("get", value)]))
    stage.client.set(value, "7")
    before.release()
    hold = await waiting
    await end(stage, hold)
    return list(hold.read)


@looped
async def timed_out(stage: Stage) -> Any:
    before = await by_somebody_else(stage)
    after = await stage.lock.aacquire(wait=0.05)
    before.release()
    return after


@looped
async def cancelled_by_an_operator(stage: Stage) -> None:
    before = await by_somebody_else(stage)
    waiting = await in_line(stage)
    try:
        (waiter,) = await asyncio.to_thread(inspection.waiters, using=stage.using)
        assert await asyncio.to_thread(inspection.cancel, waiter, using=stage.using)
        await waiting
    finally:
        before.release()


@looped
async def behind_one_that_may_be_buried(stage: Stage) -> None:
    before = await asyncio.to_thread(stage.again(crash_release=True).acquire)
    waiting = await in_line(stage)
    before.release()
    await end(stage, await waiting)


@looped
async def without_connection_when_acquired(stage: Stage) -> None:
    (await link_of(stage)).close()
    async with stage.lock as hold:
        stage.checked(hold)


@looped
async def without_connection_when_released(stage: Stage) -> None:
    async with stage.lock:
        (await link_of(stage)).close()


@looped
async def unknown_when_acquired(stage: Stage) -> None:
    stage.client.script_flush()
    async with stage.lock as hold:
        stage.checked(hold)


@looped
async def unknown_when_released(stage: Stage) -> None:
    async with stage.lock:
        stage.client.script_flush()


@looped
async def refused_by_the_server(stage: Stage) -> None:
    stage.client.set(keys_of(stage.lock.name).holder, "not ours")
    try:
        async with stage.lock:
            pass
    finally:
        stage.client.delete(keys_of(stage.lock.name).holder)


@looped
async def lost_reply_when_acquired(stage: Stage) -> None:
    with stage.aasking(scripts.ACQUIRE, after=lose):
        async with stage.lock as hold:
            stage.checked(hold)


@looped
async def lost_reply_when_released(stage: Stage) -> None:
    with stage.aasking(scripts.RELEASE, after=lose):
        async with stage.lock:
            pass


@looped
async def broken_in_line(stage: Stage) -> None:
    before = await by_somebody_else(stage)
    waiting = await in_line(stage)
    (await link_of(stage)).close()
    before.release()
    await end(stage, await waiting)


@looped
async def lost(stage: Stage) -> None:
    async with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)


@looped
async def lost_without_connection(stage: Stage) -> None:
    async with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)
        (await link_of(stage)).close()


@looped
async def lost_when_unknown(stage: Stage) -> None:
    async with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)
        stage.client.script_flush()


@looped
async def lost_with_an_error(stage: Stage) -> None:
    async with stage.lock:
        stage.client.delete(keys_of(stage.lock.name).holder)
        raise KeyError


@looped
async def over(stage: Stage) -> None:
    async with stage.lock as hold:
        hold._lease.deadline = 0.0


@looped
async def nested(stage: Stage) -> None:
    async with stage.lock, stage.lock:
        pass


@looped
async def released_early(stage: Stage) -> None:
    async with stage.lock as hold:
        await hold.arelease()
        await hold.arelease()


@looped
async def cancelled_when_it_asks(stage: Stage) -> None:
    with stage.aasking(scripts.ACQUIRE, after=cancel):
        await stage.lock.aacquire()


@looped
async def cancelled_when_told_that_it_waits(stage: Stage) -> None:
    before = await by_somebody_else(stage)
    try:
        with once(AsyncLink, "receive", lambda *_: True, cancel, lambda _: None):
            await stage.lock.aacquire()
    finally:
        before.release()


@looped
async def cancelled_in_line(stage: Stage) -> None:
    before = await by_somebody_else(stage)
    waiting = await in_line(stage)
    waiting.cancel()
    try:
        await waiting
    finally:
        before.release()


@looped
async def cancelled_when_it_releases(stage: Stage) -> None:
    with stage.aasking(scripts.RELEASE, after=cancel):
        async with stage.lock:
            pass


@looped
async def cancelled_with_an_error_when_it_releases(stage: Stage) -> None:
    with stage.aasking(scripts.RELEASE, after=cancel):
        async with stage.lock:
            raise KeyError


@looped
async def cancelled_when_released_by_hand(stage: Stage) -> None:
    with stage.aasking(scripts.RELEASE, after=cancel):
        hold = await stage.lock.aacquire()
        assert hold
        await hold.arelease()


@ways.cases(
    {
        free: 0,
        read_when_free: 0,
        refused: 0,
        handed_on: 0,
        read_when_handed_on: 0,
        timed_out: 0,
        cancelled_by_an_operator: 0,
        behind_one_that_may_be_buried: 1,
        without_connection_when_acquired: 0,
        without_connection_when_released: 0,
        unknown_when_acquired: 2,
        unknown_when_released: 1,
        refused_by_the_server: 1,
        lost_reply_when_acquired: 0,
        lost_reply_when_released: 0,
        broken_in_line: 0,
        lost: 1,
        lost_without_connection: 0,
        lost_when_unknown: 1,
        lost_with_an_error: 1,
        over: 0,
        nested: 0,
        released_early: 0,
        cancelled_when_it_asks: 0,
        cancelled_when_told_that_it_waits: 0,
        cancelled_in_line: 0,
        cancelled_when_it_releases: 0,
        cancelled_with_an_error_when_it_releases: 0,
        cancelled_when_released_by_hand: 0,
    }
)
def test_both_ways_come_to_the_same_end(case: Case, again: int | None, both_ways: BothWays) -> None:
    shortest, longer = both_ways(case, again)
    assert longer == shortest
    assert set() == shortest.left
