"""A cancelled task leaves as little behind in the shortest way of async code as in the longer ones."""

from __future__ import annotations

from redis_locks import scripts
from redis_locks.drivers.async_link import AsyncLink
from tests.internals.express import ways
from tests.internals.express.loops import by_somebody_else, in_line, looped
from tests.internals.express.stage import Stage, cancel, nothing, once
from tests.internals.express.ways import BothWays, Case


@looped
async def cancelled_when_it_asks(stage: Stage) -> None:
    with stage.aasking(scripts.ACQUIRE, after=cancel):
        await stage.lock.aacquire()


@looped
async def cancelled_when_told_that_it_waits(stage: Stage) -> None:
    before = await by_somebody_else(stage)
    try:
        with once(AsyncLink, "receive", lambda *_: True, cancel, nothing):
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
