"""What a task acquires with a time limit, in whatever task that runs, is a hold as any other.

CI runs these on all Pythons that we support: `asyncio.wait_for` makes a task on 3.11, and none
later.
"""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Awaitable, Callable

import anyio
import pytest

from redis_locks import Hold, Lock
from tests.support.world import PATIENCE, Tasks


async def by_timeout(lock: Lock) -> Hold | None:
    async with asyncio.timeout(PATIENCE):
        return await lock.aacquire()


async def by_wait_for(lock: Lock) -> Hold | None:
    return await asyncio.wait_for(lock.aacquire(), PATIENCE)


async def by_a_task_group(lock: Lock) -> Hold | None:
    async with asyncio.TaskGroup():
        return await lock.aacquire()


async def by_fail_after(lock: Lock) -> Hold | None:
    with anyio.fail_after(PATIENCE):
        return await lock.aacquire()


async def by_a_task_group_of_anyio(lock: Lock) -> Hold | None:
    async with anyio.create_task_group():
        return await lock.aacquire()


Limited = Callable[[Awaitable[object], float], Awaitable[object]]


async def timeout(what: Awaitable[object], seconds: float) -> object:
    async with asyncio.timeout(seconds):
        return await what


async def fail_after(what: Awaitable[object], seconds: float) -> object:
    with anyio.fail_after(seconds):
        return await what


LIMITS = pytest.mark.parametrize("limited", [timeout, fail_after, asyncio.wait_for])


@pytest.mark.parametrize(
    "acquire",
    [
        by_timeout,
        by_a_task_group,
        by_fail_after,
        by_a_task_group_of_anyio,
        by_wait_for,
    ],
)
def test_what_is_acquired_within_a_limit_is_nested_in_by_a_block_of_the_task(
    tasks: Tasks, name: str, acquire: Callable[[Lock], Awaitable[Hold | None]]
) -> None:
    async def run() -> None:
        lock = Lock(name, wait=0)
        hold = await acquire(lock)
        assert hold is not None
        async with hold, lock as nested:
            assert hold.fencing_token == nested.fencing_token

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks.run(run())


@LIMITS
def test_a_block_within_a_limit_releases_when_the_limit_ends_it(
    tasks: Tasks, name: str, limited: Limited
) -> None:
    async def block() -> None:
        async with Lock(name), Lock(name, wait=0):
            await asyncio.Event().wait()

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await limited(block(), 0.05)
        async with Lock(name, wait=0):
            pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks.run(run())


@LIMITS
def test_a_limit_that_ends_as_the_lock_is_granted_leaves_a_hold_or_nothing(
    tasks: Tasks, name: str, limited: Limited
) -> None:
    async def run() -> set[bool]:
        seen = set()
        for _ in range(100):
            held = asyncio.Event()
            holder = asyncio.create_task(_hold(name, held, 0.01))
            await held.wait()
            try:
                late = random.uniform(0.009, 0.014)
                got = await limited(Lock(name, wait=PATIENCE).aacquire(), late)
                assert isinstance(got, Hold)
                await got.arelease()
                seen.add(True)
            except TimeoutError:
                seen.add(False)
            await holder
            # What a cancellation released may be on its way.
            async with Lock(name, wait=1):
                pass
        return seen

    assert {True, False} == tasks.run(run())


async def _hold(name: str, held: asyncio.Event, seconds: float) -> None:
    async with Lock(name):
        held.set()
        await asyncio.sleep(seconds)


def test_a_task_of_a_group_does_not_have_the_locks_of_the_task_that_made_it(
    tasks: Tasks, name: str
) -> None:
    async def child() -> bool:
        return await Lock(name).aacquire(wait=0) is not None

    async def run() -> None:
        async with Lock(name), asyncio.TaskGroup() as group:
            got = group.create_task(child())
        assert not got.result()

    tasks.run(run())


def test_a_task_that_fails_ends_the_blocks_and_the_waits_of_its_group(
    tasks: Tasks, name: str
) -> None:
    inside = asyncio.Event()

    async def hold() -> None:
        async with Lock(name):
            inside.set()
            await asyncio.Event().wait()

    async def wait() -> None:
        await inside.wait()
        async with Lock(name, wait=None):
            pytest.fail("the other task holds it")

    async def fail() -> None:
        await inside.wait()
        await asyncio.sleep(0.05)
        raise LookupError

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for each in (hold, wait, fail):
                group.create_task(each())

    async def run() -> None:
        with pytest.raises(ExceptionGroup) as told:
            await together()
        assert [LookupError] == [type(each) for each in told.value.exceptions]
        async with Lock(name, wait=0):
            pass

    tasks.run(run())


def test_a_wait_that_a_limit_ends_leaves_nothing(tasks: Tasks, name: str) -> None:
    async def run() -> None:
        async with Lock(name):
            other = asyncio.create_task(_too_late(name))
            assert await other
        async with Lock(name, wait=0):
            pass

    tasks.run(run())


async def _too_late(name: str) -> bool:
    try:
        await asyncio.wait_for(Lock(name, wait=None).aacquire(), 0.05)
    except TimeoutError:
        return True
    return False
