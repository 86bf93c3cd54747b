"""Blocking code in a running event loop's thread: waits and holds are refused, the rest works."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation

from redis_locks import (
    Hold,
    Lock,
    LockLost,
    LockTimeout,
    compat,
    inspection,
    optimistic,
    redis_lock,
    run_once,
)
from tests.contract.parties.ways import BLOCKS, Block, every, run
from tests.elsewhere import in_thread
from tests.support.world import PATIENCE, granted

LOCK = BLOCKS[0]

pytestmark = pytest.mark.usefixtures("row", "own_prefix", "redis_server")


def refused(call: Callable[[], object], fix: str) -> None:
    """Call in a loop: it is refused, with this fix."""

    async def main() -> None:
        with pytest.raises(SynchronousOnlyOperation, match=fix):
            call()

    run(main())
    assert () == inspection.parties().holders


def in_loop(call: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return call()

    return asyncio.run(main())


def taken(name: str, **options: Any) -> Hold:
    return granted(in_thread(Lock(name, **options).acquire, wait=0))


@every([way for way in BLOCKS if way.is_acquired_by_hand])
def test_acquire_is_refused_and_names_aacquire(way: Block, name: str) -> None:
    made: Any = way.enter(name)
    refused(made.acquire, "aacquire")


@every(BLOCKS)
def test_a_block_is_refused_and_names_async_with(way: Block, name: str) -> None:
    def enter() -> None:
        with way.enter(name):
            pytest.fail("it is inside")

    refused(enter, "async with|aacquire")


def test_a_decorated_function_is_refused_and_names_async_def(name: str) -> None:
    @redis_lock(name)
    def call() -> None:
        pytest.fail("it was called")

    refused(call, "async def")


def test_a_decorated_function_that_returns_an_awaitable_is_refused_and_says_what_to_write(
    name: str,
) -> None:
    async def work() -> None:
        pytest.fail("it was called")

    @redis_lock(name)
    @functools.wraps(work)
    def traced() -> Awaitable[None]:
        return work()

    refused(traced, r"(?s)next to .?async def.*markcoroutinefunction")


def test_an_upgrade_is_refused_and_leaves_the_hold_as_it_is(name: str) -> None:
    hold = taken(name, mode="shared")

    async def main() -> None:
        with pytest.raises(SynchronousOnlyOperation, match="aupgrade"):
            hold.upgrade(wait=0)

    asyncio.run(main())
    assert "shared" == hold.mode
    assert 1 == len(inspection.parties().holders)
    hold.release()


def test_optimistic_is_refused_before_it_calls_the_function(name: str) -> None:
    def function(pipe: Any) -> None:
        pytest.fail("it was called")

    refused(lambda: optimistic.run(function, name), "async|arun")
    refused(optimistic(watch=[name])(function), "async|arun")


def test_of_five_tasks_that_forgot_the_async_none_is_inside(name: str) -> None:
    async def pay() -> None:
        with redis_lock(name, wait=1):
            await asyncio.sleep(0)
            pytest.fail("it is inside")

    async def main() -> list[Any]:
        return await asyncio.gather(*(pay() for _ in range(5)), return_exceptions=True)

    assert [SynchronousOnlyOperation] * 5 == [type(told) for told in asyncio.run(main())]
    assert () == inspection.parties().holders


def test_a_hold_is_extended_detached_and_released_in_a_loop(name: str) -> None:
    hold = taken(name, lease=10)
    in_loop(lambda: hold.extend(60))
    assert hold.remaining > 30
    text = in_loop(hold.detach)
    adopted = in_thread(Hold.adopt, text)
    in_loop(adopted.release)
    assert () == inspection.parties().holders


def test_a_lost_hold_is_told_at_its_release_in_a_loop(name: str) -> None:
    hold = taken(name)
    inspection.force_release(name)
    with pytest.raises(LockLost):
        in_loop(hold.release)


def test_status_and_inspection_work_in_a_loop(name: str) -> None:
    hold = in_thread(run_once(name).acquire)
    assert "running" == in_loop(run_once(name).status).state
    assert 1 == len(in_loop(lambda: inspection.lock(name)).holders)
    in_loop(lambda: inspection.force_release(name))
    with pytest.raises(LockLost):
        hold.release()


def test_compat_locks_work_in_a_loop_and_do_not_nest(name: str, client: redis.Redis) -> None:
    def twice() -> list[bool]:
        return [compat.Lock(client, name, timeout=10).acquire(blocking=False) for _ in range(2)]

    assert [True, False] == in_loop(twice)


async def in_child_task(service: Callable[[], None]) -> None:
    await asyncio.create_task(sync_to_async(service)())


async def gathered(service: Callable[[], None]) -> None:
    await asyncio.gather(*(sync_to_async(service)() for _ in range(2)))


@pytest.mark.parametrize("elsewhere", [in_child_task, gathered, asyncio.to_thread])
def test_sync_code_that_waits_for_its_own_request_says_so(
    elsewhere: Callable[[Any], Awaitable[None]], name: str
) -> None:
    def service() -> None:
        with pytest.raises(LockTimeout, match="own request"), redis_lock(name, wait=0.1):
            pytest.fail("it is inside")

    async def view() -> None:
        async with redis_lock(name):
            await elsewhere(service)

    asyncio.run(view())


def test_async_code_that_waits_for_its_own_request_says_so(name: str) -> None:
    async def service() -> None:
        with pytest.raises(LockTimeout, match="own request"):
            async with redis_lock(name, wait=0.1):
                pytest.fail("it is inside")

    async def child() -> None:
        await asyncio.create_task(service())

    async def view() -> None:
        async with redis_lock(name):
            await child()

    asyncio.run(view())
    with redis_lock(name):
        async_to_sync(child)()


def test_sync_code_that_the_holder_awaits_does_not_wait_for_its_own_request(name: str) -> None:
    def service() -> str:
        with redis_lock(name, wait=PATIENCE) as hold:
            return hold.token

    async def view() -> None:
        async with redis_lock(name) as hold:
            assert hold.token == await sync_to_async(service)()

    asyncio.run(view())

    async def inner() -> str:
        async with redis_lock(name, wait=PATIENCE) as hold:
            return hold.token

    with redis_lock(name) as hold:
        assert hold.token == async_to_sync(inner)()
