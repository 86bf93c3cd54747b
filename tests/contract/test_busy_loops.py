"""Renewal goes on while an event loop computes, up to a bound, and ends with the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.test import override_settings

from redis_locks import Hold, Lock, LockLost, Semaphore
from tests.support.world import PATIENCE, Tasks, Threads, held

LEASE = 0.6
"""The subject of these tests: nothing else may end it."""


@pytest.fixture
def still(tasks: Tasks) -> Any:
    """Have the loop stand still until `still.set` is called."""

    class Still(threading.Event):
        def begin(self) -> None:
            tasks.loop.call_soon_threadsafe(self.wait, PATIENCE * 2)

    made = Still()
    yield made
    made.set()


@pytest.mark.parametrize("made", [Lock, lambda name, **options: Semaphore(name, 1, **options)])
def test_a_loop_that_computes_for_three_leases_keeps_its_locks(
    tasks: Tasks, name: str, made: Callable[..., Lock]
) -> None:
    async def compute() -> None:
        async with made(name, lease=LEASE) as hold:
            time.sleep(3 * LEASE)  # noqa: ASYNC251 - as a view does that computes
            await asyncio.sleep(0)
            hold.check()

    with Lock(f"{name}:beside", lease=LEASE) as beside:
        block = tasks.submit(compute())
        block.result(PATIENCE)
        beside.check()
    held(Threads(), made(name), wait=0).release()


@pytest.mark.parametrize("given", ["by the lock", "by the setting"])
def test_a_loop_that_stands_still_for_longer_loses_them(
    name: str, given: str, still: Any, tasks: Tasks
) -> None:
    options = {"max_hold": 2 * LEASE} if given == "by the lock" else {}
    setting = {"MAX_HOLD": 2 * LEASE} if given == "by the setting" else {}
    lost: Future[bool]

    async def hang(entered: threading.Event) -> bool:
        try:
            async with Lock(name, lease=LEASE, **options):
                entered.set()
                await asyncio.sleep(PATIENCE)
        except LockLost:
            return True
        return False

    with override_settings(REDIS_LOCKS=setting):
        entered = threading.Event()
        lost = tasks.submit(hang(entered))
        assert entered.wait(PATIENCE)
        began = time.monotonic()
        still.begin()
        next_one = held(Threads(), Lock(name, wait=PATIENCE))
        assert 2 * LEASE < time.monotonic() - began
        next_one.release()
        still.set()
        assert lost.result(PATIENCE)


def test_a_loop_that_turns_now_and_then_keeps_them_for_good(tasks: Tasks, name: str) -> None:
    async def compute() -> None:
        async with Lock(name, lease=LEASE, max_hold=2 * LEASE) as hold:
            for _ in range(4):
                time.sleep(LEASE)  # noqa: ASYNC251
                await asyncio.sleep(0.01)
            hold.check()

    tasks.run(compute())


def test_a_hold_ends_with_its_lease_once_the_loop_is_closed(name: str) -> None:
    async def leave() -> Hold | None:
        return await Lock(name, lease=LEASE).aacquire()

    left = asyncio.run(leave())
    with Lock(name, wait=PATIENCE):
        assert left is not None
        assert left.is_lost


def test_a_loop_is_told_at_once_what_its_own_thread_does_not_hear(
    tasks: Tasks, name: str, still: Any
) -> None:
    """The loss is known while the loop stands still."""
    hold = held(tasks, Lock(name, lease=LEASE, max_hold=0.01))
    still.begin()
    with Lock(name, wait=PATIENCE):
        assert hold.is_lost
    still.set()
    with pytest.raises(LockLost):
        tasks.release(hold)
