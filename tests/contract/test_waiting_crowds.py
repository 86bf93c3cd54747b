"""Many holders that wait at once cost the server little, lose nothing, and have deadlocks found."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest

from redis_locks import DeadlockDetected, Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support.connections import record_pauses
from tests.support.world import PATIENCE, Observer, Tasks, held, until

TIMEOUT = 1.0
"""DEADLOCK_TIMEOUT, as by default."""
TRIES = 3
TURNS = 5
"""How often its loop and the server have their turn, at most, until a deadlock is told."""


def per_script(client: Any) -> float:
    """Return how many commands a script has run, on the average."""
    stats = {word[8:]: each["calls"] for word, each in client.info("commandstats").items()}
    run = stats.pop("evalsha", 0) + stats.pop("eval", 0)
    return sum(stats.values()) / run


def wanted(shape: str, number: int, count: int) -> tuple[str, ...]:
    """Return what a member of a crowd waits for, while it holds the lock of its number."""
    if shape == "star of sets":
        return "hot", f"spoke:{number % 50}"
    return (str(number + 1) if shape == "chain" and number + 1 < count else "hot",)


async def longest_turn(free: Lock, over: asyncio.Event) -> float:
    """Return the longest time that this task takes for a lock that nobody else wants."""
    longest, last = 0.0, monotonic()
    while not over.is_set():
        async with free:
            await asyncio.sleep(0.02)
        longest, last = max(longest, monotonic() - last), monotonic()
    return longest


def deadlock_found(
    tasks: Tasks, name: str, server: EmbeddedServer, shape: str, count: int
) -> tuple[float, float]:
    """Return how long a task was in a deadlock before it was told, behind a crowd of that shape.

    And the `longest_turn` of another task meanwhile.
    """

    def lock(*of: object) -> Lock:
        return Lock(*(f"{name}:{each}" for each in of), using=server.url, wait=10 * PATIENCE)

    ready, waits, told = asyncio.Event(), asyncio.Event(), asyncio.Event()
    having = 0

    async def member(first: Lock, second: Lock) -> None:
        nonlocal having
        async with first as hold:
            having += 1
            await ready.wait()
            async with second:
                assert not hold.is_lost

    async def party(first: Lock, second: Lock, go: asyncio.Event) -> float | None:
        """Return how long it took to be told of the deadlock; None if another was."""
        async with first:
            await go.wait()
            started = monotonic()
            try:
                async with second:
                    return None
            except DeadlockDetected:
                return monotonic() - started
            finally:
                told.set()

    crowd = [tasks.submit(member(lock(i), lock(*wanted(shape, i, count)))) for i in range(count)]
    with server.client() as client:
        server_side = Observer(client)
        one = tasks.submit(party(lock("hot"), lock("x"), waits))
        other = tasks.submit(party(lock("x"), lock("hot"), ready))
        until(
            lambda: having == count and server_side.holder(f"{name}:x"),
            within=10 * PATIENCE,
        )
        client.config_resetstat()

        async def begin() -> None:
            waits.set()
            await asyncio.sleep(TIMEOUT / 2)
            ready.set()

        tasks.run(begin())
        turn = tasks.submit(longest_turn(lock("free"), told))
        found = other.result(10 * PATIENCE)
        assert found is not None
        assert one.result(10 * PATIENCE) is None
        for each in crowd:
            each.result(10 * PATIENCE)
        assert per_script(client) < 20
        assert set() == server_side.left_of(f"{name}:hot")
    return found, turn.result(PATIENCE)


@pytest.mark.parametrize(
    "count",
    [150, pytest.param(1500, marks=[pytest.mark.ci, pytest.mark.timed, pytest.mark.timeout(600)])],
)
@pytest.mark.parametrize(
    "shape",
    [
        "hot lock",
        *(pytest.param(shape, marks=pytest.mark.ci) for shape in ("chain", "star of sets")),
    ],
)
def test_a_crowd_that_waits_is_no_burden_and_hides_no_deadlock(
    tasks: Tasks, name: str, private_server: EmbeddedServer, shape: str, count: int
) -> None:
    """A deadlock is found within a second of `TIMEOUT`, and some turns, in one of some tries.

    A turn is what a task takes for a free lock. So a machine that is busy makes no failure.
    """
    late = []
    for each in range(TRIES):
        found, turn = deadlock_found(tasks, f"{name}:{each}", private_server, shape, count)
        late.append(found - TIMEOUT - TURNS * turn)
        if late[-1] < 1.0:
            break
    assert min(late) < 1.0, late


def test_tasks_whose_connection_breaks_do_not_all_ask_again_at_once(
    tasks: Tasks, name: str, private_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A millisecond for each waiter, by chance."""
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=2 * PATIENCE)
    hold = held(tasks, lock)
    waiting = [tasks.submit(tasks._block(lock, lambda _: None)) for _ in range(100)]
    with private_server.client() as client:
        Observer(client).until_waiters(name, 100)
        pauses = record_pauses(monkeypatch)
        client.client_kill_filter(skipme=True)
        until(lambda: len(pauses) >= 100)
    tasks.release(hold)
    for each in waiting:
        each.result(PATIENCE)
    first = sorted(pauses[:100])
    assert 0.0 <= first[0] < 0.05 < first[-1] < 0.1
