"""Places in a line: who stands in this process's line for a lock, and what reaches the next."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from redis_locks import Hold, Lock, lines
from redis_locks.leases import Lease
from tests.support.world import PATIENCE, Observer, World, held, until


def in_line(lock: Lock) -> list[Any]:
    """Those that stand in this process's lines for a lock."""
    return [
        place
        for line in list(lines._lines.values())
        for place in list(line._places)
        if place.request.names == lock.names
    ]


def lined_up(world: World, lock: Lock, count: int) -> list[Future[Any]]:
    """Have so many stand in line behind whoever holds, one after the other."""
    waiting = []
    for place in range(1, count + 1):
        waiting.append(world.start(world.acquire, lock))
        until(lambda place=place: len(in_line(lock)) == place)  # type: ignore[misc]
    return waiting


def some_behind(world: World, lock: Lock, count: int) -> tuple[Hold, list[Future[Any]]]:
    """A hold, and what becomes of so many that stand in line behind it."""
    return held(world, lock), lined_up(world, lock, count)


def one_behind(world: World, lock: Lock) -> tuple[Hold, Future[Any]]:
    hold, (waiter,) = some_behind(world, lock, 1)
    return hold, waiter


async def tasks_behind(lock: Lock, count: int) -> list[asyncio.Task[Hold | None]]:
    """Have so many tasks of this loop stand in line behind whoever holds."""
    waiting = [asyncio.create_task(lock.aacquire()) for _ in range(count)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert count == len(in_line(lock))
    return waiting


def passed_on(world: World, lock: Lock) -> Hold:
    """A hold that another thread or task had first."""
    first, waiter = one_behind(world, lock)
    world.release(first)
    hold: Hold = waiter.result(PATIENCE)
    assert hold.fencing_token == first.fencing_token + 1
    return hold


def write_down(lease: Lease, server_side: Observer) -> None:
    """Have the server do what the holder of a passed lease would ask for, without its reply."""
    assert lease.restates()
    script, (keys, argv) = lease.extension
    assert "adopt" == script.name
    assert b" 1 " in server_side.client.eval(script.text, len(keys), *keys, *argv)
