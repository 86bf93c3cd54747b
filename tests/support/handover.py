"""LOCAL_BATCH: who waits for a lock within this process, and what its holder hands over to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from redis_locks import Hold, Lock
from redis_locks.drivers.base import run_blocking
from redis_locks.locks import commit_guard, partitions
from redis_locks.protocol import local_handover
from redis_locks.protocol.lease import Lease
from redis_locks.protocol.local_handover import Line
from tests.support.world import PATIENCE, Observer, World, held, until


def in_line(lock: Lock) -> list[Any]:
    """Those that stand in this process's lines for a lock."""
    return [
        place
        for line in list(local_handover._lines.values())
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

    async def stand() -> Hold | None:
        return await lock.aacquire()

    waiting = [asyncio.create_task(stand()) for _ in range(count)]
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


def write_down(hold: Any, server_side: Observer) -> None:
    """Have the server do what the holder of a passed lease would ask for, without its reply."""
    _write_down(hold.lease, server_side)


def _write_down(lease: Any, server_side: Observer) -> None:
    assert lease.restates()
    script, (keys, argv) = lease.extension
    assert "adopt" == script.name
    assert b" 1 " in server_side.client.eval(script.text, len(keys), *keys, *argv)


def has_lines() -> bool:
    """Whether anybody of this process holds or waits in a line."""
    return bool(local_handover._lines)


def forget_lines() -> None:
    local_handover._lines.clear()


def verify(hold: Hold) -> None:
    """Have the server confirm `hold`, as before the end of a transaction."""
    commit_guard.verify([hold.lease])


def state(hold: Any) -> bool:
    """Tell the server of a hold that was passed on."""
    return run_blocking(partitions.level(hold.backend.driver, [hold], extend=False))


def is_stated_late(hold: Any) -> bool:
    """Whether the server is still to be told of this hold."""
    return hold.lease.own is not None


def interrupt_once(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Raise KeyboardInterrupt when a line has done what `method` says."""
    original = getattr(Line, method)
    interrupts = [KeyboardInterrupt]

    def interrupted(*args: Any, **options: Any) -> Any:
        outcome = original(*args, **options)
        if interrupts:
            raise interrupts.pop()
        return outcome

    monkeypatch.setattr(Line, method, interrupted)


def interrupt_once_stated(monkeypatch: pytest.MonkeyPatch, server_side: Observer) -> None:
    """Interrupt a waiter that got a passed hold after the server learned of it."""

    def interrupted(lease: Lease, *_: Any) -> None:
        _write_down(lease, server_side)
        raise KeyboardInterrupt

    monkeypatch.setattr(Lease, "begin", interrupted)


def come_too_late(monkeypatch: pytest.MonkeyPatch, lost: Callable[[], None]) -> None:
    """A passed hold reaches its heir when its lease is over; `lost` runs on the way."""
    original = Line.come_out

    def late(line: Line, place: Any) -> None:
        original(line, place)
        place.before.deadline = 0.0
        lost()

    monkeypatch.setattr(Line, "come_out", late)
