"""Sync code that asyncio's tasks run by sync_to_async, in one thread: each task is a holder."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from asgiref.sync import async_to_sync, sync_to_async

from redis_locks import Hold, Lock
from tests.support import sessions

PATIENCE = 20


def take(name: str) -> Hold | None:
    return Lock(name, wait=0).acquire()


def nested_token(name: str) -> str:
    with Lock(name, wait=0) as hold:
        return hold.token


async def taken_by_two_tasks(name: str) -> int:
    """How many of two tasks get the lock while none releases it."""
    holds = await asyncio.gather(*(sync_to_async(take)(name) for _ in range(2)))
    for hold in filter(None, holds):
        await sync_to_async(hold.release)()
    return sum(hold is not None for hold in holds)


def test_of_two_tasks_one_gets_the_lock(name: str) -> None:
    assert 1 == asyncio.run(taken_by_two_tasks(name))


def test_of_two_tasks_one_gets_the_lock_when_their_parent_took_it_before(name: str) -> None:
    async def parent() -> int:
        hold = await sync_to_async(take)(name)
        assert hold is not None
        await sync_to_async(hold.release)()
        return await taken_by_two_tasks(name)

    assert 1 == asyncio.run(parent())


def test_of_two_tasks_one_gets_the_lock_while_their_parent_holds_another(name: str) -> None:
    async def parent() -> int:
        hold = await sync_to_async(take)(f"{name}:other")
        assert hold is not None
        found = await taken_by_two_tasks(name)
        await sync_to_async(hold.release)()
        return found

    assert 1 == asyncio.run(parent())


def test_of_two_tasks_one_gets_the_lock_in_the_thread_of_async_to_sync(name: str) -> None:
    for _ in range(2):
        assert 1 == async_to_sync(taken_by_two_tasks)(name)
    with Lock(name, wait=0) as hold:  # and that thread goes on
        assert hold.token == nested_token(name)


def test_a_task_s_next_call_waits_for_what_an_earlier_one_took_by_hand(name: str) -> None:
    async def twice() -> None:
        first = await sync_to_async(take)(name)
        assert first is not None
        assert await sync_to_async(take)(name) is None
        assert await Lock(name, wait=0).aacquire() is None
        await sync_to_async(first.release)()
        after = await sync_to_async(take)(name)
        assert after is not None
        assert after.token != first.token
        await sync_to_async(after.release)()

    asyncio.run(twice())


def test_sync_code_nests_in_the_block_of_the_task_that_awaits_it(name: str) -> None:
    async def task() -> None:
        async with Lock(name) as hold:
            assert hold.token == await sync_to_async(nested_token)(name)
            both = await asyncio.gather(*(sync_to_async(take)(name) for _ in range(2)))
            assert [None, None] == both

    asyncio.run(task())


def test_sync_code_called_from_async_code_called_from_it_takes_it_again(name: str) -> None:
    def outer() -> None:
        with Lock(name, wait=0) as hold:
            assert async_to_sync(sync_to_async(inner))() == hold.token
            assert inner() == hold.token

    def inner() -> str:
        with Lock(name, wait=0) as nested:
            return nested.token

    for _ in range(2):
        outer()
        # What this thread held came back as another's.
        assert not sessions.holds_anything()
        assert sessions.remembers_nothing()
    asyncio.run(sync_to_async(outer)())
    assert not sessions.holds_anything()


def test_a_generator_that_several_calls_go_on_with_takes_its_lock_again_in_each(name: str) -> None:
    def holds() -> Generator[str, None, None]:
        with Lock(name, wait=0):
            for _ in range(3):
                with Lock(name, wait=0) as nested:
                    yield nested.token

    async def main() -> set[str]:
        tokens = holds()
        found = {await sync_to_async(next)(tokens) for _ in range(3)}
        await sync_to_async(tokens.close)()
        return found

    assert 1 == len(asyncio.run(main()))


def test_a_call_waits_and_holds_as_one_so_that_its_deadlocks_are_seen() -> None:
    def names() -> set[str]:
        return {sessions.waits_as() for _ in range(3)}

    async def twice() -> list[set[str]]:
        return list(await asyncio.gather(sync_to_async(names)(), sync_to_async(names)()))

    first, second = asyncio.run(twice())
    assert (1, 1) == (len(first), len(second))
    assert first != second
