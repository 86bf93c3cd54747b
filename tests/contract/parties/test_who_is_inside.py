"""Who may be inside with whom: every public way in, and every kind of caller."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation

from redis_locks import inspection
from tests.contract.parties.callers import (
    ASKERS,
    ASYNC_ASKERS,
    ASYNC_OPENERS,
    OPENERS,
    loop_of_its_own,
    pause,
    until_it_pauses,
)
from tests.contract.parties.ways import BLOCKS, WAITS, WAYS, Block, Way, aasked, asked, every, run

pytestmark = pytest.mark.usefixtures("row", "own_prefix")


def wrong(
    way: Way, callers: Mapping[Callable[..., Any], str], tell: Callable[..., str]
) -> dict[str, str]:
    """What becomes of each caller for whom `tell` has another word than is expected."""
    found = {}
    for caller, expected in callers.items():
        try:
            word = tell(caller)
        except Exception as error:  # noqa: BLE001 - a word, too
            word = repr(error)
        if inspection.parties().holders:
            word += ", and something is still held"
            for lock in inspection.names():
                inspection.force_release(lock)
        if word != way.word(expected):
            found[caller.__name__] = f"{word}, instead of {way.word(expected)}"
    return found


@every(BLOCKS)
def test_a_block_nests_what_is_asked_while_its_frame_is_on_the_stack(way: Block, name: str) -> None:
    def tell(caller: Callable[..., str]) -> str:
        lock = f"{name}:{caller.__name__}"
        return caller(partial(way.enter, lock), partial(asked, way, lock))

    assert {} == wrong(way, OPENERS, tell)


@every(WAYS)
def test_a_block_of_a_thread_nests_what_that_thread_asks_or_waits_for(way: Way, name: str) -> None:
    def tell(caller: Callable[..., str]) -> str:
        lock = f"{name}:{caller.__name__}"
        return way.run(lock, partial(caller, partial(asked, way, lock), partial(aasked, way, lock)))

    assert {} == wrong(way, ASKERS, tell)


@every(WAYS)
def test_a_block_of_sync_to_async_nests_what_that_call_asks_or_waits_for(
    way: Way, name: str
) -> None:
    def tell(caller: Callable[..., str]) -> str:
        lock = f"{name}:{caller.__name__}"
        asks = partial(caller, partial(asked, way, lock), partial(aasked, way, lock))
        return run(sync_to_async(way.run)(lock, asks))

    # asgiref refuses that one by itself where a loop is needed to ask the database.
    others = {caller: word for caller, word in ASKERS.items() if caller is not loop_of_its_own}
    assert {} == wrong(way, others, tell)


@every(WAYS)
def test_a_coroutine_that_its_task_has_paused_nests_nothing(way: Way, name: str) -> None:
    async def paused() -> str:
        await pause()
        return ""

    async def main() -> str:
        steps = way.arun(name, paused)
        await until_it_pauses(steps)
        word = await aasked(way, name)
        await until_it_pauses(steps)
        return word

    assert WAITS == run(main())


@every(BLOCKS)
def test_an_async_block_nests_what_is_asked_while_its_frame_is_on_the_stack(
    way: Block, name: str
) -> None:
    def tell(caller: Callable[..., Coroutine[Any, Any, str]]) -> str:
        lock = f"{name}:{caller.__name__}"
        return run(caller(partial(way.aenter, lock), partial(aasked, way, lock)))

    assert {} == wrong(way, ASYNC_OPENERS, tell)


@every(WAYS)
def test_a_block_of_a_task_nests_what_that_task_asks_or_awaits(way: Way, name: str) -> None:
    def tell(caller: Callable[..., Coroutine[Any, Any, str]]) -> str:
        lock = f"{name}:{caller.__name__}"
        asks = partial(caller, partial(asked, way, lock), partial(aasked, way, lock))
        return run(way.arun(lock, asks))

    assert {} == wrong(way, ASYNC_ASKERS, tell)


@every(BLOCKS)
def test_a_block_nests_the_async_code_that_its_thread_waits_for(way: Block, name: str) -> None:
    def tell(caller: Callable[..., str]) -> str:
        lock = f"{name}:{caller.__name__}"
        return caller(partial(way.enter, lock), async_to_sync(partial(aasked, way, lock)))

    # A loop runs in the thread of the others already.
    outside = {caller: word for caller, word in OPENERS.items() if "jupyter" not in caller.__name__}
    assert {} == wrong(way, outside, tell)


@every(BLOCKS)
def test_an_async_block_nests_the_blocking_code_that_its_task_awaits(way: Block, name: str) -> None:
    def tell(caller: Callable[..., Coroutine[Any, Any, str]]) -> str:
        lock = f"{name}:{caller.__name__}"
        return run(caller(partial(way.aenter, lock), sync_to_async(partial(asked, way, lock))))

    assert {} == wrong(way, ASYNC_OPENERS, tell)


@every(WAYS)
def test_blocking_code_that_would_hold_in_a_loop_is_refused_and_holds_nothing(
    way: Way, name: str
) -> None:
    async def main() -> None:
        with pytest.raises(SynchronousOnlyOperation, match="async"):
            way.run(name, lambda: pytest.fail("it is inside"))

    run(main())
    assert () == inspection.parties().holders
