"""What an operator ends is ended, and known to be, within a fifth of a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import pytest

from redis_locks import Lock, LockError, LockLost, inspection
from tests.contract.test_revoked import wait_in
from tests.contract.test_transit import adopt, of_every_kind
from tests.support.world import PATIENCE, Observer, Tasks, World, held, in_line, until

AT_ONCE = 0.2
TRIES = 5


def test_a_holder_is_lost_within_a_fifth_of_a_second(
    world: World, name: str, listening: Callable[[], bool]
) -> None:
    def once() -> float:
        hold = held(world, Lock(name, lease=60))
        until(listening)
        began = perf_counter()
        inspection.force_release(name)
        until(lambda: hold.is_lost)
        took = perf_counter() - began
        with pytest.raises(LockLost):
            world.release(hold)
        return took

    assert median(once() for _ in range(TRIES)) < AT_ONCE


def test_a_task_in_its_block_is_cancelled_within_a_fifth_of_a_second(
    tasks: Tasks, name: str
) -> None:
    async def once() -> float:
        entered, seen = asyncio.Event(), list[BaseException]()
        task = asyncio.create_task(wait_in(Lock(name, lease=60), entered, seen))
        await entered.wait()
        began = perf_counter()
        await inspection.aforce_release(name)
        with pytest.raises(LockLost):
            await asyncio.wait_for(task, PATIENCE)
        assert isinstance(seen[0], asyncio.CancelledError)
        return perf_counter() - began

    assert median(tasks.run(once()) for _ in range(TRIES)) < AT_ONCE


def test_a_waiter_gets_its_error_within_a_fifth_of_a_second(
    world: World, name: str, server_side: Observer
) -> None:
    def once() -> float:
        waiting = in_line(world, Lock(name, wait=None), server_side)
        (waiter,) = inspection.lock(name).waiters  # type: ignore[union-attr]
        began = perf_counter()
        assert inspection.cancel(waiter)
        with pytest.raises(LockError, match=f"lock '{name}' was cancelled by an operator"):
            waiting.result(PATIENCE)
        return perf_counter() - began

    hold = held(world, Lock(name))
    assert median(once() for _ in range(TRIES)) < AT_ONCE
    world.release(hold)


@of_every_kind
def test_the_fencing_token_is_overtaken_before_anybody_else_holds(
    world: World, name: str, made: Callable[[str], Any]
) -> None:
    hold = held(world, made(name))
    released = inspection.force_release(name)
    assert (1, True) == (released.ended, hold.fencing_token < released.fencing_token)
    until(lambda: hold.is_lost)
    with pytest.raises(LockLost):
        world.release(hold)
    successor = held(world, made(name))
    assert released.fencing_token < successor.fencing_token
    world.release(successor)


def test_an_adopted_hold_is_overtaken_too_and_what_is_given_away_can_no_more_be_adopted(
    world: World, name: str
) -> None:
    hold = adopt(world, world.do(held(world, Lock(name)), "detach"))
    assert hold.fencing_token < inspection.force_release(name).fencing_token
    until(lambda: hold.is_lost)
    text = world.do(held(world, Lock(name)), "detach")
    assert inspection.force_release(name)
    with pytest.raises(LockLost, match="cannot be adopted"):
        adopt(world, text)
