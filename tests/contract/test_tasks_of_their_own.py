"""What a task acquires with a time limit belongs to that task, or a warning says that it does not."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable

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


@pytest.mark.parametrize(
    "acquire",
    [
        by_timeout,
        by_a_task_group,
        pytest.param(
            by_wait_for,
            marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="a task of its own"),
        ),
    ],
)
def test_what_is_acquired_within_a_limit_belongs_to_the_task(
    tasks: Tasks, name: str, acquire: Callable[[Lock], Awaitable[Hold | None]]
) -> None:
    async def run() -> None:
        lock = Lock(name, wait=0)
        hold = await acquire(lock)
        assert hold is not None
        async with lock as nested:
            assert hold.fencing_token == nested.fencing_token
        await hold.arelease()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks.run(run())


def test_a_task_that_only_acquires_warns(tasks: Tasks, name: str) -> None:
    async def run() -> None:
        with pytest.warns(RuntimeWarning, match="task that ends now"):
            hold = await asyncio.create_task(Lock(name).aacquire())
        assert hold is not None
        await hold.arelease()

    tasks.run(run())


def test_a_task_that_only_acquires_holds_nothing_where_warnings_are_errors(
    tasks: Tasks, name: str
) -> None:
    async def run() -> None:
        with pytest.raises(RuntimeWarning):
            await asyncio.create_task(Lock(name).aacquire())
        async with Lock(name, wait=0):
            pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
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
