"""The shortest way of async code does what the longer ones do, at every turn it can leave them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_locks import Lock, inspection, scripts
from redis_locks.drivers.async_link import AsyncLink
from redis_locks.scripts import Script
from tests.internals.express import ways
from tests.internals.express.loops import by_somebody_else, end, in_line, link_of, looped
from tests.internals.express.stage import Stage, lose, nothing, once
from tests.internals.express.ways import BothWays, Case
from tests.support.world import Observer, Tasks, keys_of


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
async def cut_off_before_the_reply_when_acquired(stage: Stage) -> None:
    with stage.aasking(scripts.ACQUIRE, after=AsyncLink.close):
        async with stage.lock as hold:
            stage.checked(hold)


@looped
async def cut_off_before_the_reply_when_released(stage: Stage) -> None:
    with stage.aasking(scripts.RELEASE, after=AsyncLink.close):
        async with stage.lock:
            pass


@looped
async def released_by_two_at_once_when_unknown(stage: Stage) -> None:
    context = stage.lock.hold()
    hold = await context.__aenter__()
    stage.client.script_flush()
    await asyncio.gather(context.__aexit__(None, None, None), hold.arelease())


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
        cut_off_before_the_reply_when_acquired: 0,
        cut_off_before_the_reply_when_released: 0,
        released_by_two_at_once_when_unknown: None,
        broken_in_line: 0,
        lost: 1,
        lost_without_connection: 0,
        lost_when_unknown: 1,
        lost_with_an_error: 1,
        over: 0,
        nested: 0,
        released_early: 0,
    }
)
def test_both_ways_come_to_the_same_end(case: Case, again: int | None, both_ways: BothWays) -> None:
    shortest, longer = both_ways(case, again)
    assert longer == shortest
    assert set() == shortest.left


@pytest.mark.parametrize("script", [scripts.ACQUIRE, scripts.RELEASE], ids=["acquire", "release"])
def test_a_link_whose_replies_are_out_of_step_is_used_no_more(
    script: Script, name: str, tasks: Tasks, server_side: Observer
) -> None:
    asked: list[AsyncLink] = []

    def answer_with_another_s_reply(link: AsyncLink) -> None:
        asked.append(link)
        link._replies[-1][0].set_result(b"other 1 1 1")

    async def hold() -> None:
        sent = lambda packed, *_: script.sha in packed  # noqa: E731
        with once(AsyncLink, "ask", sent, nothing, answer_with_another_s_reply):
            async with Lock(name) as held:
                assert server_side.holder(name) == held.token

    async def connected() -> None:
        async with Lock(f"{name}:first"):
            pass
        await hold()

    tasks.run(connected())
    assert asked[0].broken
    assert set() == server_side.left_of(name)
