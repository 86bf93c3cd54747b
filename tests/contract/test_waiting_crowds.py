"""Many that hold something wait at once: it costs the server little, nobody loses a hold, and a deadlock among them is found."""

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


def per_script(client: Any) -> float:
    """Return how many commands a script has run, on the average."""
    stats = {word[8:]: each["calls"] for word, each in client.info("commandstats").items()}
    run = stats.pop("evalsha", 0) + stats.pop("eval", 0)
    return sum(stats.values()) / run


@pytest.mark.parametrize(
    "count",
    [150, pytest.param(1500, marks=[pytest.mark.ci, pytest.mark.timed, pytest.mark.timeout(300)])],
)
@pytest.mark.parametrize("shape", ["hot lock", "chain"])
def test_a_crowd_that_waits_is_no_burden_and_hides_no_deadlock(
    tasks: Tasks, name: str, private_server: EmbeddedServer, shape: str, count: int
) -> None:
    def lock(of: object) -> Lock:
        return Lock(f"{name}:{of}", using=private_server.url, wait=10 * PATIENCE)

    ready, waits = asyncio.Event(), asyncio.Event()
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

    seconds = [lock("hot") if shape == "hot lock" else lock(i + 1) for i in range(count - 1)]
    crowd = [
        tasks.submit(member(lock(i), second)) for i, second in enumerate([*seconds, lock("hot")])
    ]
    with private_server.client() as client:
        server_side = Observer(client)
        one = tasks.submit(party(lock("hot"), lock("x"), waits))
        other = tasks.submit(party(lock("x"), lock("hot"), ready))
        until(lambda: having == count and server_side.holder(f"{name}:x"))
        client.config_resetstat()

        async def begin() -> None:
            waits.set()
            await asyncio.sleep(TIMEOUT / 2)
            ready.set()

        tasks.run(begin())
        found = other.result(10 * PATIENCE)
        assert found is not None
        assert found < TIMEOUT + 1.0 + count / 500  # the tasks are of one loop
        assert one.result(PATIENCE) is None
        for each in crowd:
            each.result(10 * PATIENCE)
        assert per_script(client) < 20
        assert set() == server_side.left_of(f"{name}:hot")


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
