"""lock_timeout and lock_deadline bound the waits of a block, wherever they are written."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from redis_locks import Lock, lock_deadline, lock_timeout
from redis_locks.conf.settings import UNSET, get_settings
from redis_locks.locks import timeouts
from redis_locks.locks.timeouts import bounded
from redis_locks.protocol.lease import Lease
from redis_locks.protocol.store import Refused
from redis_locks.run_once import run_once


@pytest.mark.parametrize(
    ("wait", "expected"), [(None, 2.0), (5.0, 2.0), (1.0, 1.0), (0.0, 0.0), (2.0, 2.0)]
)
def test_the_smaller_of_a_wait_and_the_bound_counts(
    wait: float | None, expected: float | None
) -> None:
    with lock_timeout(2):
        assert expected == bounded(wait)
    assert wait == bounded(wait)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"), [(2, 5, 2), (5, 2, 2), (None, 3, 3), (3, None, 3), (0, 3, 0)]
)
def test_of_nested_blocks_the_smallest_bound_counts(
    outer: float | None, inner: float | None, expected: float
) -> None:
    with lock_timeout(outer):
        with lock_timeout(inner):
            assert expected == bounded(None)
        assert outer == bounded(None)
    assert None is bounded(None)


def test_it_bounds_the_waits_of_locks_whether_given_or_from_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float | None] = []

    async def refused() -> Refused:
        return Refused(0, 0, "")

    def asked(lease: Lease, driver: object, wait: float | None, *more: object) -> Any:
        waits.append(wait)
        return refused()

    monkeypatch.setattr(Lease, "ask", asked)
    with lock_timeout(1.5):
        Lock("a").acquire()
        Lock("a", wait=None).acquire()
        Lock("a", wait=0).acquire(wait=9)
        Lock("a", wait=0).acquire()
    Lock("a").acquire()
    assert [1.5, 1.5, 1.5, 0, get_settings().wait] == waits


def test_a_block_that_is_left_in_another_context_leaves_that_alone() -> None:
    def elsewhere() -> None:
        block = lock_timeout(1)
        contextvars.copy_context().run(block.__enter__)
        block.__exit__(None, None, None)
        assert None is bounded(None)
        with lock_timeout(2):
            contextvars.copy_context().run(block.__enter__)
            block.__exit__(None, None, None)
            assert 2 == bounded(None)

    contextvars.copy_context().run(elsewhere)


def test_a_generator_may_be_closed_by_another_task() -> None:
    async def generator() -> AsyncIterator[None]:
        with lock_timeout(1):
            yield

    async def begin() -> Any:
        begun = generator()
        await anext(begun)
        return begun

    async def main() -> float | None:
        begun = await asyncio.create_task(begin())
        await begun.aclose()
        return bounded(None)

    assert None is asyncio.run(main())


@pytest.mark.parametrize("block", [lock_timeout, lock_deadline])
def test_a_generator_that_another_task_closes_bounds_its_consumer_no_longer(block: Any) -> None:
    """As the event loop closes one that was left by `break`: all later waits had no time."""

    async def generator() -> AsyncIterator[None]:
        with block(0):
            yield

    async def main() -> tuple[float | None, float | None]:
        begun: Any = generator()
        await anext(begun)
        open_still = bounded(None)
        await asyncio.create_task(begun.aclose())
        return open_still, bounded(None)

    assert (0, None) == asyncio.run(main())


def test_blocks_may_be_left_in_another_order() -> None:
    first, second = lock_timeout(1), lock_timeout(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert 2 == bounded(None)
    second.__exit__(None, None, None)
    assert None is bounded(None)


def test_one_object_may_be_entered_again_and_by_threads_at_the_same_time() -> None:
    shared = lock_timeout(3)
    seen: list[float | None] = []

    def look() -> None:
        seen.append(bounded(None))
        with shared:
            seen.append(bounded(None))

    with shared, shared:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert 3 == bounded(None)
    assert [None, 3] == seen


@pytest.mark.parametrize(
    ("wrong", "error"), [(-1, ValueError), ("2", TypeError), (float("nan"), ValueError)]
)
def test_a_wrong_bound_is_named_at_once(wrong: Any, error: type[Exception]) -> None:
    for block in (lock_timeout, lock_deadline):
        with pytest.raises(error, match="seconds must be"):
            block(wrong)


class Clock:
    """Stands still but for what a test adds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(timeouts, "monotonic", stopped)
    return stopped


def test_a_deadline_bounds_all_waits_together(clock: Clock) -> None:
    with lock_deadline(5):
        assert [5, 5, 3, 0] == [bounded(wait) for wait in (None, 60, 3, 0)]
        clock.now += 4
        assert [1, 1, 1, 0] == [bounded(wait) for wait in (None, 60, 3, 0)]
        clock.now += 4
        assert [0, 0, 0, 0] == [bounded(wait) for wait in (None, 60, 3, 0)]
    assert None is bounded(None)


def test_no_block_inside_gives_more_time(clock: Clock) -> None:
    with lock_deadline(5), lock_timeout(2):
        clock.now += 4
        with lock_deadline(30), lock_timeout(30), lock_deadline(None), lock_timeout(None):
            assert 1 == bounded(None)
        with lock_deadline(0.5):
            assert 0.5 == bounded(None)
        with lock_timeout(0.25):
            assert 0.25 == bounded(None)
        assert 1 == bounded(None)


def test_a_deadline_counts_from_entering_its_block_each_time(clock: Clock) -> None:
    shared = lock_deadline(5)
    for _ in range(2):
        clock.now += 100
        with shared:
            assert 5 == bounded(None)


def test_a_deadline_reaches_tasks_and_sync_code_started_inside_it(clock: Clock) -> None:
    async def task() -> list[float | None]:
        return [bounded(None), await sync_to_async(bounded)(None)]

    async def main() -> list[float | None]:
        with lock_deadline(4):
            clock.now += 1
            started = asyncio.create_task(task())
        return await started

    assert [3, 3] == asyncio.run(main())


def test_the_wait_of_a_job_is_bounded_too(clock: Clock) -> None:
    job = run_once("job", wait=60)
    with lock_deadline(5), lock_timeout(3):
        assert [3, 3] == [job._terms.effective_wait(wait) for wait in (UNSET, None)]
        clock.now += 4
        assert [1, 0] == [job._terms.effective_wait(wait) for wait in (UNSET, 0)]
