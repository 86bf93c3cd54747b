"""The end of a block ends that block's hold: wherever, in whatever order, and however often."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any
from weakref import ref

import pytest

from redis_locks import Hold, Lock, LockNotAvailable, Semaphore, inspection, run_once
from tests.elsewhere import in_thread
from tests.support.world import granted, until

pytestmark = pytest.mark.usefixtures("own_prefix", "redis_server")

SEVERAL = pytest.mark.parametrize(
    "make",
    [lambda name: Semaphore(name, 3, wait=0), lambda name: Lock(name, mode="shared", wait=0)],
    ids=["permits", "shared"],
)
"""Locks that several may hold at once."""

Make = Callable[[str], Any]


def holds() -> set[str]:
    return {each.token for each in inspection.parties().holders}


async def aholds() -> set[str]:
    return {each.token for each in (await inspection.aparties()).holders}


def inside(lock: Any) -> Iterator[Hold]:
    with lock as hold:
        yield hold
        yield hold


async def ainside(lock: Any) -> AsyncIterator[Hold]:
    async with lock as hold:
        yield hold
        yield hold


async def begun(stream: Any) -> Hold:
    hold: Hold = await anext(stream)
    return hold


@SEVERAL
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_generators_on_one_lock_end_their_own_holds_in_any_order(
    make: Make, order: tuple[int, ...], name: str
) -> None:
    lock = make(name)
    streams: Any = [inside(lock) for _ in range(3)]
    taken = [next(stream) for stream in streams]
    left = {hold.token for hold in taken}
    assert 3 == len(left)
    for place in order:
        streams[place].close()
        left.remove(taken[place].token)
        assert left == holds()
        assert [hold.token in left for hold in taken] == [hold.remaining > 0 for hold in taken]


@SEVERAL
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_async_generators_of_one_task_end_their_own_holds_in_any_order(
    make: Make, order: tuple[int, ...], name: str
) -> None:
    async def main() -> None:
        lock = make(name)
        streams: Any = [ainside(lock) for _ in range(3)]
        taken = [await anext(stream) for stream in streams]
        left = {hold.token for hold in taken}
        assert 3 == len(left)
        for place in order:
            await streams[place].aclose()
            left.remove(taken[place].token)
            assert left == await aholds()
            assert [hold.token in left for hold in taken] == [hold.remaining > 0 for hold in taken]

    asyncio.run(main())


@SEVERAL
def test_async_generators_begun_by_several_tasks_may_be_closed_by_another_one(
    make: Make, name: str
) -> None:
    async def main() -> None:
        lock = make(name)
        streams: Any = [ainside(lock) for _ in range(2)]
        taken = [await asyncio.create_task(begun(stream)) for stream in streams]
        assert {hold.token for hold in taken} == await aholds()
        await streams[0].aclose()
        assert {taken[1].token} == await aholds()
        await streams[0].aclose()
        assert {taken[1].token} == await aholds()
        await streams[1].aclose()
        assert set() == await aholds()

    asyncio.run(main())


@SEVERAL
def test_async_generators_that_are_left_by_a_break_leave_the_holds_of_others(
    make: Make, name: str
) -> None:
    errors: list[Any] = []

    async def main() -> None:
        lock = make(name)

        async def reader() -> None:
            async for _ in ainside(lock):
                break

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        async with lock as hold:
            await asyncio.gather(reader(), reader())
            gc.collect()
            await asyncio.to_thread(until, lambda: {hold.token} == holds())
            hold.check()

    asyncio.run(main())
    assert [] == errors
    assert set() == holds()


def in_a_loop(close: Callable[[], None]) -> None:
    async def main() -> None:
        close()

    asyncio.run(main())


@pytest.mark.parametrize("somewhere", [in_thread, in_a_loop])
@pytest.mark.parametrize("make", [Lock, run_once, lambda name: Lock(name).hold()])
def test_a_generator_may_be_closed_by_another_thread_and_in_a_loop(
    make: Make, somewhere: Callable[[Callable[[], None]], None], name: str
) -> None:
    stream: Any = inside(make(name))
    next(stream)
    somewhere(stream.close)
    assert set() == holds()


class Local:
    """A local variable whose end is seen."""


def test_a_refused_block_of_a_generator_keeps_no_frame_alive(name: str) -> None:
    kept = []

    def refused() -> Iterator[None]:
        local = Local()
        kept.append(ref(local))
        context = Lock(name).hold(wait=0)
        with suppress(LockNotAvailable), context:
            pytest.fail("two were inside")
        yield

    other = granted(Lock(name).acquire())
    gc.disable()
    try:
        list(refused())
        assert kept[0]() is None
    finally:
        gc.enable()
        other.release()


def test_the_methods_of_a_lock_may_be_kept_and_called_for_several_blocks(name: str) -> None:
    lock = Lock(name, wait=0)
    enter, leave = lock.__enter__, lock.__exit__
    for _ in range(3):
        enter()
        assert 1 == len(holds())
        leave(None, None, None)
        assert set() == holds()


def test_the_methods_of_a_lock_may_be_kept_and_called_for_several_async_blocks(name: str) -> None:
    async def main() -> None:
        lock = Lock(name, wait=0)
        enter, leave = lock.__aenter__, lock.__aexit__
        for _ in range(3):
            await enter()
            assert 1 == len(await aholds())
            await leave(None, None, None)
            assert set() == await aholds()

    asyncio.run(main())
