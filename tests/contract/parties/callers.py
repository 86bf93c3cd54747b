"""Kinds of callers: each holds or asks in its own manner, and says what became of the one who asks.

What cannot be proven to run inside the holder's block is somebody else, and waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from functools import partial
from typing import Any, Final, TypeVar
from unittest import mock

import anyio
import anyio.to_thread
import trio
from asgiref.sync import async_to_sync, sync_to_async

from tests.contract.parties.ways import NESTS, REFUSED, WAITS

Ask = Callable[[], str]
"""Blocking code asks."""
AsyncAsk = Callable[[], Coroutine[Any, Any, str]]
"""Async code asks."""
Enter = Callable[[], AbstractContextManager[Any]]
AsyncEnter = Callable[[], Awaitable[AbstractAsyncContextManager[Any]]]

C = TypeVar("C", bound=Callable[..., Any])


class Callers(dict[Callable[..., Any], str]):
    """Callers of one signature, each with the word that is to come of it."""

    def nests(self, caller: C) -> C:
        self[caller] = NESTS
        return caller

    def waits(self, caller: C) -> C:
        self[caller] = WAITS
        return caller

    def refused(self, caller: C) -> C:
        self[caller] = REFUSED
        return caller


OPENERS: Final = Callers()
"""They open a block in blocking code, and ask beside it: ``(enter, ask)``."""
ASYNC_OPENERS: Final = Callers()
"""They open a block in a task, and ask beside it: ``(enter, ask)``, both async."""
ASKERS: Final = Callers()
"""They ask from inside a block of blocking code: ``(ask, async_ask)``."""
ASYNC_ASKERS: Final = Callers()
"""They ask from inside a block of a task: ``(ask, async_ask)``."""


def only(words: list[str]) -> str:
    """The word that all were told."""
    (word,) = set(words)
    return word


def suspended(enter: Enter) -> Iterator[None]:
    with enter():
        yield


@contextmanager
def managed(enter: Enter) -> Iterator[None]:
    with enter():
        yield


class Own:
    """A context manager that somebody wrote as a class."""

    def __init__(self, enter: Enter) -> None:
        self.inner = enter()

    def __enter__(self) -> None:
        self.inner.__enter__()

    def __exit__(self, *error: object) -> None:
        self.inner.__exit__(*error)


# Blocks of blocking code, opened in all manners.


@OPENERS.nests
def with_statement(enter: Enter, ask: Ask) -> str:
    with enter():
        return ask()


@OPENERS.nests
def contextmanager_(enter: Enter, ask: Ask) -> str:
    with managed(enter):
        return ask()


@OPENERS.nests
def exit_stack(enter: Enter, ask: Ask) -> str:
    with ExitStack() as stack:
        stack.enter_context(enter())
        return ask()


@OPENERS.nests
def class_with_enter(enter: Enter, ask: Ask) -> str:
    with Own(enter):
        return ask()


@OPENERS.nests
def called_enter(enter: Enter, ask: Ask) -> str:
    manager = enter()
    manager.__enter__()
    try:
        return ask()
    finally:
        manager.__exit__(None, None, None)


@OPENERS.waits
def called_enter_that_a_function_left_open(enter: Enter, ask: Ask) -> str:
    def left_open() -> AbstractContextManager[Any]:
        manager = enter()
        manager.__enter__()
        return manager

    manager = left_open()
    try:
        return ask()
    finally:
        manager.__exit__(None, None, None)


@OPENERS.waits
def called_enter_that_a_function_left_open_with_its_exit(enter: Enter, ask: Ask) -> str:
    def left_open() -> Callable[..., Any]:
        manager = enter()
        leave = manager.__exit__
        manager.__enter__()
        return leave

    leave = left_open()
    try:
        return ask()
    finally:
        leave(None, None, None)


def works_off(*jobs: Callable[[], Any]) -> Any:
    """What the last job returns: run one after the other, as the thread of a pool does."""
    done = None
    for job in jobs:
        done = job()
    return done


@OPENERS.waits
def called_enter_that_an_earlier_job_of_the_worker_left(enter: Enter, ask: Ask) -> str:
    with ThreadPoolExecutor(1) as pool:
        manager = enter()
        try:
            return str(pool.submit(works_off, manager.__enter__, ask).result())
        finally:
            pool.submit(manager.__exit__, None, None, None).result()


@OPENERS.waits
def contextmanager_that_an_earlier_job_of_the_worker_left(enter: Enter, ask: Ask) -> str:
    with ThreadPoolExecutor(1) as pool:
        manager = managed(enter)
        try:
            return str(pool.submit(works_off, manager.__enter__, ask).result())
        finally:
            pool.submit(manager.__exit__, None, None, None).result()


@OPENERS.waits
def exit_stack_that_an_earlier_job_of_the_worker_left(enter: Enter, ask: Ask) -> str:
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        enters = partial(stack.enter_context, enter())
        return str(pool.submit(works_off, enters, ask).result())


@OPENERS.waits
def contextmanager_that_an_earlier_call_of_anyio_left(enter: Enter, ask: Ask) -> str:
    async def main() -> str:
        manager = managed(enter)
        await anyio.to_thread.run_sync(manager.__enter__)
        try:
            return await anyio.to_thread.run_sync(ask)
        finally:
            await anyio.to_thread.run_sync(manager.__exit__, None, None, None)

    return anyio.run(main)


@OPENERS.waits
def exit_stack_that_a_function_popped(enter: Enter, ask: Ask) -> str:
    def popped() -> ExitStack:
        with ExitStack() as stack:
            stack.enter_context(enter())
            return stack.pop_all()

    with popped():
        return ask()


@OPENERS.nests
def generator_that_asks_itself(enter: Enter, ask: Ask) -> str:
    def holds() -> Iterator[str]:
        with enter():
            yield ""
            yield ask()

    return "".join(holds())


@OPENERS.waits
def generator_with_a_child_task_whose_sync_code_asks(enter: Enter, ask: Ask) -> str:
    async def main() -> str:
        return await asyncio.create_task(sync_to_async(ask)())

    def holds() -> Iterator[str]:
        with enter():
            yield async_to_sync(main)()

    return "".join(holds())


@OPENERS.nests
def generator_that_another_one_delegates_to(enter: Enter, ask: Ask) -> str:
    def asks() -> Iterator[str]:
        yield ""
        yield ask()

    def holds() -> Iterator[str]:
        with enter():
            yield from asks()

    return "".join(holds())


@OPENERS.waits
def suspended_generator(enter: Enter, ask: Ask) -> str:
    with closing(suspended(enter)) as holds:
        next(holds)
        return ask()


@OPENERS.waits
def two_generators(enter: Enter, ask: Ask) -> str:
    def asks() -> Iterator[str]:
        yield ask()

    with closing(suspended(enter)) as holds:
        next(holds)
        return next(asks())


@OPENERS.waits
def contextmanager_in_a_suspended_generator(enter: Enter, ask: Ask) -> str:
    with closing(suspended(lambda: managed(enter))) as holds:
        next(holds)
        return ask()


@OPENERS.waits
def exit_stack_in_a_suspended_generator(enter: Enter, ask: Ask) -> str:
    def suspends() -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(enter())
            yield

    with closing(suspends()) as holds:
        next(holds)
        return ask()


@OPENERS.waits
def exit_stack_that_a_function_left_open(enter: Enter, ask: Ask) -> str:
    def left_open() -> ExitStack:
        stack = ExitStack()
        stack.enter_context(enter())
        return stack

    with left_open():
        return ask()


@OPENERS.waits
def contextmanager_that_a_function_left_open(enter: Enter, ask: Ask) -> str:
    def left_open() -> AbstractContextManager[None]:
        manager = managed(enter)
        manager.__enter__()
        return manager

    manager = left_open()
    try:
        return ask()
    finally:
        manager.__exit__(None, None, None)


@OPENERS.waits
def generator_that_an_earlier_job_of_the_pool_thread_left(enter: Enter, ask: Ask) -> str:
    with ThreadPoolExecutor(1) as pool:
        holds = suspended(enter)
        pool.submit(next, holds).result()
        try:
            return pool.submit(ask).result()
        finally:
            holds.close()


@OPENERS.waits
def coroutine_of_a_scheduler_of_ones_own(enter: Enter, ask: Ask) -> str:
    class Pause:
        def __await__(self) -> Iterator[None]:
            yield

    async def holds() -> None:
        with enter():
            await Pause()

    with closing(holds()) as first:
        first.send(None)
        return ask()


@OPENERS.nests
def task_of_trio(enter: Enter, ask: Ask) -> str:
    async def main() -> str:
        with enter():
            await trio.lowlevel.checkpoint()
            return ask()

    return trio.run(main)


@OPENERS.waits
def two_tasks_of_trio(enter: Enter, ask: Ask) -> str:
    words = []

    async def asks(inside: trio.Event, over: trio.Event) -> None:
        await inside.wait()
        words.append(ask())
        over.set()

    async def main() -> None:
        inside, over = trio.Event(), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks, inside, over)
            with enter():
                inside.set()
                await over.wait()

    trio.run(main)
    return only(words)


@OPENERS.waits
def thread_of_trio(enter: Enter, ask: Ask) -> str:
    async def main() -> str:
        with enter():
            return await trio.to_thread.run_sync(ask)

    return trio.run(main)


def unsafe() -> Any:
    """The flag that Jupyter sets, so that blocking code may run in its loop."""
    return mock.patch.dict(os.environ, DJANGO_ALLOW_ASYNC_UNSAFE="true")


@OPENERS.nests
def task_with_the_flag_of_jupyter(enter: Enter, ask: Ask) -> str:
    async def main() -> str:
        with enter():
            await asyncio.sleep(0)
            return ask()

    with unsafe():
        return asyncio.run(main())


@OPENERS.waits
def two_tasks_with_the_flag_of_jupyter(enter: Enter, ask: Ask) -> str:
    async def asks() -> str:
        return ask()

    async def main() -> str:
        with enter():
            return await asyncio.create_task(asks())

    with unsafe():
        return asyncio.run(main())


@OPENERS.waits
def callback_with_the_flag_of_jupyter(enter: Enter, ask: Ask) -> str:
    async def main() -> str:
        told = asyncio.get_running_loop().create_future()

        def callback() -> None:
            with enter():
                told.set_result(ask())

        asyncio.get_running_loop().call_soon(callback)
        return str(await told)

    with unsafe():
        return asyncio.run(main())


# Askers inside a block of blocking code.


@ASKERS.nests
def block(ask: Ask, _: AsyncAsk) -> str:
    return ask()


@ASKERS.nests
def generator(ask: Ask, _: AsyncAsk) -> str:
    def asks() -> Iterator[str]:
        yield ask()

    return next(asks())


@ASKERS.waits
def thread(ask: Ask, _: AsyncAsk) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ask).result()


@ASKERS.waits
def thread_in_the_context_of_the_holder(ask: Ask, _: AsyncAsk) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, ask).result()


@ASKERS.nests
def async_to_sync_(_: Ask, async_ask: AsyncAsk) -> str:
    return async_to_sync(async_ask)()


@ASKERS.nests
def sync_code_of_async_to_sync(ask: Ask, _: AsyncAsk) -> str:
    return async_to_sync(sync_to_async(ask))()


@ASKERS.waits
def child_task_of_async_to_sync(_: Ask, async_ask: AsyncAsk) -> str:
    async def main() -> str:
        return await asyncio.create_task(async_ask())

    return async_to_sync(main)()


@ASKERS.nests
def coroutine_of_async_to_sync_that_awaited_sync_code_before(ask: Ask, async_ask: AsyncAsk) -> str:
    async def main() -> str:
        return only([await sync_to_async(ask)(), await async_ask()])

    return async_to_sync(main)()


@ASKERS.waits
def coroutine_of_a_call_that_a_child_task_of_async_to_sync_awaits(
    _: Ask, async_ask: AsyncAsk
) -> str:
    async def main() -> str:
        return await asyncio.create_task(sync_to_async(async_to_sync(async_ask))())

    return async_to_sync(main)()


@ASKERS.nests
def sync_code_two_bridges_further_on(ask: Ask, _: AsyncAsk) -> str:
    return async_to_sync(sync_to_async(async_to_sync(sync_to_async(ask))))()


@ASKERS.waits
def sync_code_of_a_child_task_of_async_to_sync(ask: Ask, _: AsyncAsk) -> str:
    async def main() -> str:
        # It runs in the holder's thread, above the holder's frame. But the holder goes on
        # meanwhile.
        return await asyncio.create_task(sync_to_async(ask)())

    return async_to_sync(main)()


@ASKERS.waits
def sync_codes_gathered_by_async_to_sync(ask: Ask, _: AsyncAsk) -> str:
    async def main() -> str:
        return only(await asyncio.gather(*(sync_to_async(ask)() for _ in range(3))))

    return async_to_sync(main)()


@ASKERS.waits
def sync_codes_gathered_in_any_thread_by_async_to_sync(ask: Ask, _: AsyncAsk) -> str:
    async def main() -> str:
        calls = (sync_to_async(ask, thread_sensitive=False)() for _ in range(3))
        return only(await asyncio.gather(*calls))

    return async_to_sync(main)()


@ASKERS.waits
def async_to_sync_of_another_thread(_: Ask, async_ask: AsyncAsk) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(async_to_sync(async_ask)).result()


@ASKERS.waits
def loop_of_its_own(_: Ask, async_ask: AsyncAsk) -> str:
    return asyncio.run(async_ask())


@ASKERS.refused
def blocking_code_in_a_loop(ask: Ask, _: AsyncAsk) -> str:
    async def main() -> str:
        return ask()

    return async_to_sync(main)()


# Blocks of tasks, opened in all manners.


async def asuspended(enter: AsyncEnter) -> AsyncIterator[None]:
    async with await enter():
        yield


amanaged = asynccontextmanager(asuspended)


class AsyncOwn:
    """A context manager that somebody wrote as a class."""

    def __init__(self, enter: AsyncEnter) -> None:
        self.enter = enter

    async def __aenter__(self) -> None:
        self.inner = await self.enter()
        await self.inner.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self.inner.__aexit__(*error)


@ASYNC_OPENERS.nests
async def async_with_statement(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async with await enter():
        return await ask()


@ASYNC_OPENERS.nests
async def asynccontextmanager_(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async with amanaged(enter):
        return await ask()


@ASYNC_OPENERS.nests
async def async_exit_stack(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(await enter())
        return await ask()


@ASYNC_OPENERS.nests
async def class_with_aenter(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async with AsyncOwn(enter):
        return await ask()


@ASYNC_OPENERS.nests
async def called_aenter(enter: AsyncEnter, ask: AsyncAsk) -> str:
    manager = await enter()
    await manager.__aenter__()
    try:
        return await ask()
    finally:
        await manager.__aexit__(None, None, None)


@ASYNC_OPENERS.waits
async def called_aenter_that_a_coroutine_left_open(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async def left_open() -> AbstractAsyncContextManager[Any]:
        manager = await enter()
        await manager.__aenter__()
        return manager

    manager = await left_open()
    try:
        return await ask()
    finally:
        await manager.__aexit__(None, None, None)


async def aworks_off(*jobs: Callable[[], Awaitable[Any]]) -> Any:
    """What the last job returns: run one after the other by one task."""
    done = None
    for job in jobs:
        done = await job()
    return done


@ASYNC_OPENERS.waits
async def called_aenter_that_an_earlier_job_of_the_task_left(
    enter: AsyncEnter, ask: AsyncAsk
) -> str:
    manager = await enter()
    try:
        return str(await aworks_off(manager.__aenter__, ask))
    finally:
        await manager.__aexit__(None, None, None)


@ASYNC_OPENERS.waits
async def asynccontextmanager_that_an_earlier_job_of_the_task_left(
    enter: AsyncEnter, ask: AsyncAsk
) -> str:
    manager = amanaged(enter)
    try:
        return str(await aworks_off(manager.__aenter__, ask))
    finally:
        await manager.__aexit__(None, None, None)


@ASYNC_OPENERS.waits
async def asynccontextmanager_that_a_coroutine_left_open(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async def left_open() -> AbstractAsyncContextManager[None]:
        manager = amanaged(enter)
        await manager.__aenter__()
        return manager

    manager = await left_open()
    try:
        return await ask()
    finally:
        await manager.__aexit__(None, None, None)


@ASYNC_OPENERS.nests
async def async_generator_that_asks_itself(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async def holds() -> AsyncIterator[str]:
        async with await enter():
            yield ""
            yield await ask()

    return "".join([word async for word in holds()])


@ASYNC_OPENERS.waits
async def suspended_async_generator(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async with aclosing(asuspended(enter)) as holds:  # type: ignore[type-var]
        await anext(holds)
        return await ask()


@ASYNC_OPENERS.waits
async def two_async_generators(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async def asks() -> AsyncIterator[str]:
        yield await ask()

    async with aclosing(asuspended(enter)) as holds:  # type: ignore[type-var]
        await anext(holds)
        return await anext(asks())


@ASYNC_OPENERS.waits
async def asynccontextmanager_in_a_suspended_generator(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async def suspends() -> AsyncIterator[None]:
        async with amanaged(enter):
            yield

    async with aclosing(suspends()) as holds:  # type: ignore[type-var]
        await anext(holds)
        return await ask()


@ASYNC_OPENERS.waits
async def async_exit_stack_that_a_coroutine_left_open(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async def left_open() -> AsyncExitStack:
        stack = AsyncExitStack()
        await stack.enter_async_context(await enter())
        return stack

    async with await left_open():
        return await ask()


@ASYNC_OPENERS.waits
async def async_generator_begun_by_another_task(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async with aclosing(asuspended(enter)) as holds:  # type: ignore[type-var]

        async def begin() -> None:
            await anext(holds)

        await asyncio.create_task(begin())
        return await ask()


PAUSE: Final = object()


@types.coroutine
def pause() -> Generator[object, None, None]:
    yield PAUSE


@types.coroutine
def until_it_pauses(steps: Coroutine[Any, Any, None]) -> Generator[Any, None, None]:
    """Run a coroutine in the current task until it pauses or ends, as asyncio's frameworks do."""
    with suppress(StopIteration):
        while (waits_for := steps.send(None)) is not PAUSE:
            yield waits_for


@ASYNC_OPENERS.waits
async def coroutine_that_its_task_has_paused(enter: AsyncEnter, ask: AsyncAsk) -> str:
    async def holds() -> None:
        async with await enter():
            await pause()

    steps = holds()
    await until_it_pauses(steps)
    word = await ask()
    await until_it_pauses(steps)
    return word


# Askers inside a block of a task.


@ASYNC_ASKERS.nests
async def async_block(_: Ask, async_ask: AsyncAsk) -> str:
    return await async_ask()


@ASYNC_ASKERS.nests
async def coroutine_that_it_awaits(_: Ask, async_ask: AsyncAsk) -> str:
    async def inner() -> str:
        return await async_ask()

    return await inner()


@ASYNC_ASKERS.nests
async def async_generator(_: Ask, async_ask: AsyncAsk) -> str:
    async def asks() -> AsyncIterator[str]:
        yield await async_ask()

    return await anext(asks())


@ASYNC_ASKERS.nests
async def within_a_timeout(_: Ask, async_ask: AsyncAsk) -> str:
    async with asyncio.timeout(60):
        return await async_ask()


@ASYNC_ASKERS.nests
async def within_a_scope_of_anyio(_: Ask, async_ask: AsyncAsk) -> str:
    with anyio.fail_after(60):
        return await async_ask()


@(ASYNC_ASKERS.nests if sys.version_info >= (3, 12) else ASYNC_ASKERS.waits)
async def wait_for(_: Ask, async_ask: AsyncAsk) -> str:
    return await asyncio.wait_for(async_ask(), 60)


@ASYNC_ASKERS.waits
async def child_task(_: Ask, async_ask: AsyncAsk) -> str:
    return await asyncio.create_task(async_ask())


@ASYNC_ASKERS.waits
async def child_task_that_is_shielded(_: Ask, async_ask: AsyncAsk) -> str:
    return await asyncio.shield(async_ask())


@ASYNC_ASKERS.waits
async def gathered_coroutines(_: Ask, async_ask: AsyncAsk) -> str:
    return only(await asyncio.gather(*(async_ask() for _ in range(3))))


@ASYNC_ASKERS.waits
async def task_group(_: Ask, async_ask: AsyncAsk) -> str:
    async with asyncio.TaskGroup() as group:
        child = group.create_task(async_ask())
    return child.result()


@ASYNC_ASKERS.waits
async def task_group_of_anyio(_: Ask, async_ask: AsyncAsk) -> str:
    words: list[str] = []

    async def asks() -> None:
        words.append(await async_ask())

    async with anyio.create_task_group() as group:
        group.start_soon(asks)
    return only(words)


if sys.version_info >= (3, 12):

    @ASYNC_ASKERS.waits
    async def eager_task(_: Ask, async_ask: AsyncAsk) -> str:
        return await asyncio.eager_task_factory(asyncio.get_running_loop(), async_ask())


@ASYNC_ASKERS.nests
async def sync_to_async_(ask: Ask, _: AsyncAsk) -> str:
    return await sync_to_async(ask)()


@ASYNC_ASKERS.nests
async def sync_to_async_in_any_thread(ask: Ask, _: AsyncAsk) -> str:
    return await sync_to_async(ask, thread_sensitive=False)()


@ASYNC_ASKERS.nests
async def async_code_of_sync_to_async(_: Ask, async_ask: AsyncAsk) -> str:
    return await sync_to_async(async_to_sync(async_ask))()


@ASYNC_ASKERS.waits
async def gathered_calls_of_sync_to_async(ask: Ask, _: AsyncAsk) -> str:
    return only(await asyncio.gather(*(sync_to_async(ask)() for _ in range(3))))


@ASYNC_ASKERS.waits
async def gathered_calls_of_sync_to_async_in_any_thread(ask: Ask, _: AsyncAsk) -> str:
    calls = (sync_to_async(ask, thread_sensitive=False)() for _ in range(3))
    return only(await asyncio.gather(*calls))


@ASYNC_ASKERS.waits
async def child_task_with_sync_to_async(ask: Ask, _: AsyncAsk) -> str:
    return await asyncio.create_task(sync_to_async(ask)())


@ASYNC_ASKERS.waits
async def thread_that_sync_to_async_starts(ask: Ask, async_ask: AsyncAsk) -> str:
    return await sync_to_async(thread)(ask, async_ask)


@ASYNC_ASKERS.waits
async def to_thread(ask: Ask, _: AsyncAsk) -> str:
    return await asyncio.to_thread(ask)


@ASYNC_ASKERS.waits
async def run_in_executor(ask: Ask, _: AsyncAsk) -> str:
    return await asyncio.get_running_loop().run_in_executor(None, ask)


@ASYNC_ASKERS.waits
async def thread_of_anyio(ask: Ask, _: AsyncAsk) -> str:
    return await anyio.to_thread.run_sync(ask)


@ASYNC_ASKERS.waits
async def coroutine_that_a_thread_has_the_loop_run(_: Ask, async_ask: AsyncAsk) -> str:
    return await anyio.to_thread.run_sync(partial(anyio.from_thread.run, async_ask))


@ASYNC_ASKERS.refused
async def blocking_code(ask: Ask, _: AsyncAsk) -> str:
    return ask()


@ASYNC_ASKERS.refused
async def blocking_code_of_a_callback(ask: Ask, _: AsyncAsk) -> str:
    loop = asyncio.get_running_loop()
    told = loop.create_future()
    loop.call_soon(lambda: told.set_result(ask()))
    return str(await told)
