"""Lost replies, cancelled tasks, deadlocks and stand-ins, where rows are concerned."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from redis_locks import DeadlockDetected, Lock, LockLost, LockNotAvailable, inspection
from redis_locks.rows import lock_model, lock_rows
from redis_locks.testing import assert_locked, assert_released, override_locks
from tests.faults.proxy import Proxy
from tests.ledger.models import Counter
from tests.rows.conftest import ReadingThreads
from tests.support.rows import row_of
from tests.support.world import PATIENCE, Observer, Tasks, World

Make = Callable[..., Counter]
MODEL = "ledger.Counter@default"


def name_of(row: Counter) -> str:
    return row_of(Counter, "default", row.pk).name


@pytest.mark.parametrize("skip_locked", [False, True])
def test_a_grant_whose_reply_was_lost_is_given_once(
    world: World, counter: Make, proxy: Proxy, skip_locked: bool
) -> None:
    rows = [counter() for _ in range(3)]
    wanted = {"skip_locked": skip_locked, "limit": 2}
    world.release(world.acquire(lock_rows(rows, using=proxy.url, **wanted)))
    proxy.lose(1, losses=2)
    found: Any = world.acquire(lock_rows(rows, using=proxy.url, **wanted))
    assert (2, rows[:2]) == (proxy.lost, found)
    assert inspection.lock(name_of(rows[2])) is None
    world.release(found)
    assert inspection.lock(MODEL) is None


def test_cancelling_at_random_moments_leaves_no_row_locked(
    tasks: Tasks, counter: Make, server_side: Observer
) -> None:
    rows = [counter() for _ in range(2)]
    chance = random.Random(1)

    async def cycle(skip_locked: bool) -> None:
        while True:
            async with lock_rows(rows, skip_locked=skip_locked, lease=30):
                await asyncio.sleep(0)

    async def cancelled(skip_locked: bool) -> None:
        task = asyncio.create_task(cycle(skip_locked))
        await asyncio.sleep(chance.uniform(0, 0.02))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for number in range(30):
        tasks.run(cancelled(number % 2 == 0))
        assert set() == server_side.left_of(MODEL)
        assert set() == server_side.left_of(name_of(rows[1]))


@pytest.mark.parametrize("second", ["row", "model"])
def test_a_deadlock_of_rows_is_found(counter: Make, name: str, second: str, settings: Any) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "DEADLOCK_TIMEOUT": 0.2}
    one, other = counter(), counter()
    meeting = threading.Barrier(2)
    outcomes: list[Any] = []

    def party(first: Any, then: Any) -> None:
        with first:
            meeting.wait(PATIENCE)
            try:
                with then as rows:
                    outcomes.append(rows)
            except DeadlockDetected as error:
                outcomes.append(error)

    if second == "row":
        steps: Any = [(lock_rows(one), lock_rows(other)), (lock_rows(other), lock_rows(one))]
        wanted = (MODEL, name_of(other))
    else:
        steps = [(lock_rows(one), Lock(name)), (Lock(name), lock_model(Counter, "shared"))]
        wanted = (MODEL,)
    parties = [ReadingThreads().start(party, *each) for each in steps]
    for each in parties:
        each.result(PATIENCE)
    (victim,) = [outcome for outcome in outcomes if isinstance(outcome, DeadlockDetected)]
    assert 2 == len(outcomes) == len(victim.circle)
    assert wanted in [wait.names for wait in victim.circle]
    assert {wait.mode for wait in victim.circle} <= {"exclusive", "shared"}
    assert inspection.lock(MODEL) is None


def test_override_locks_knows_rows(world: World, counter: Make) -> None:
    rows = [counter(), counter()]
    with override_locks("granted"):
        for skip_locked in (False, True):
            found: Any = world.acquire(lock_rows(rows, skip_locked=skip_locked, limit=1))
            assert rows[:1] == found
            assert_locked(name_of(rows[0]))
            assert_released(name_of(rows[1]))
            world.release(found)
            assert_released(name_of(rows[0]))
    with override_locks("busy"):
        assert world.acquire(lock_rows(rows)) is None
        with pytest.raises(LockNotAvailable):
            world.block(lock_rows(rows), list)
        assert [] == world.acquire(lock_rows(rows, skip_locked=True))
    with override_locks("lost"):
        for skip_locked in (False, True):
            with pytest.raises(LockLost):
                world.block(lock_rows(rows, skip_locked=skip_locked), list)
