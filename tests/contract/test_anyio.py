"""Locks in async code that anyio's scopes end, on its asyncio backend."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from redis_locks import Lock, inspection
from tests.support.parties import held
from tests.support.world import existing

pytestmark = pytest.mark.usefixtures("redis_server")


def test_a_scope_ends_a_wait_and_its_place_in_the_queue(name: str) -> None:
    async def wait() -> bool:
        with anyio.move_on_after(0.2) as scope:
            async with Lock(name, wait=60):
                pytest.fail("somebody else holds it")
        return scope.cancelled_caught

    with held(name):
        assert anyio.run(wait)
        found = existing(name)
        assert 0 == found.waiting


def test_a_scope_that_ends_a_block_releases(name: str) -> None:
    async def work() -> bool:
        with anyio.move_on_after(0.2) as scope:
            async with Lock(name):
                await anyio.sleep_forever()
        return scope.cancelled_caught

    assert anyio.run(work)
    assert inspection.lock(name) is None


def test_tasks_of_a_group_take_locks_of_their_own(name: str) -> None:
    order: list[str] = []

    async def take(step: str) -> None:
        async with Lock(name, wait=10):
            order.append(f"{step} begins")
            await anyio.lowlevel.checkpoint()
            order.append(f"{step} ends")

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for step in ("first", "second"):
                group.start_soon(take, step)

    anyio.run(main)
    assert [line.split()[1] for line in order] == ["begins", "ends"] * 2
