"""Many tasks of one process, or many processes, want one lock: no herd, and each in its turn."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support import calls, stored, timings
from tests.support.world import PATIENCE, Observer, Tasks, World, held, keys_of, served, until


def scripts_run(client: redis.Redis) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{word}", {}).get("calls", 0) for word in ("evalsha", "eval"))


def scripts_known(tasks: Tasks, name: str, server: EmbeddedServer) -> None:
    """Have the server know what runs here, so that nothing is sent twice."""
    other = Lock(f"{name}:other", using=server.url)
    hold = held(tasks, other)
    waiting = tasks.start(tasks.acquire, other)
    with server.client() as client:
        Observer(client).until_waiters(f"{name}:other", 1)
    tasks.release(hold)
    tasks.release(waiting.result(PATIENCE))


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_many_tasks_wait_on_one_connection_and_are_served_in_order_without_a_herd(
    tasks: Tasks,
    name: str,
    private_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    # Signs of life depend on how long it takes, not on how many there are.
    timings.waiters_ask_again_after(monkeypatch, 10 * PATIENCE)
    # So long that no hold is renewed meanwhile, however slow the machine is.
    lock = Lock(name, using=private_server.url, wait=PATIENCE, lease=100 * PATIENCE)
    served: list[str] = []

    def note(hold: Any) -> None:
        served.append(hold.token)

    changed = {**settings.REDIS_LOCKS, "DEADLOCK_TIMEOUT": None}
    with private_server.client() as client, override_settings(REDIS_LOCKS=changed):
        hold = held(tasks, lock)
        # Once for all: the loop's connection, two of the thread that renews, and ours.
        until(lambda: len(client.client_list()) == 4)
        scripts_known(tasks, name, private_server)
        connections = len(client.client_list())
        before = scripts_run(client)
        working = [tasks.submit(tasks._block(lock, note)) for _ in range(count)]
        server_side = Observer(client)
        server_side.until_waiters(name, count)
        queue = [token.decode() for token in stored.line(client, keys_of(name).lock)]
        assert count == scripts_run(client) - before
        tasks.release(hold)
        for each in working:
            each.result(2 * PATIENCE)
        assert queue == served
        # One to ask, and one to release, which tells the next.
        assert 2 * count + 1 == scripts_run(client) - before
        assert connections == len(client.client_list())
        assert set() == server_side.left_of(name)


@pytest.mark.ci
def test_a_waiter_asks_once_for_each_sign_of_life(
    world: World, name: str, private_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.waiters_ask_again_after(monkeypatch, 0.05)
    lock = Lock(name, using=private_server.url, lease=2 * PATIENCE)
    hold = held(world, lock)
    asked: list[float] = []

    async def noted(plain: calls.Handler, *args: Any, **options: Any) -> Any:
        asked.append(time.monotonic())
        return await plain(*args, **options)

    calls.intercept(monkeypatch, "acquire", noted)
    waiting = world.start(world.acquire, lock)
    until(lambda: len(asked) == 5)
    world.release(hold)
    served(world, waiting)
    pauses = [after - before for before, after in pairwise(asked[:5])]
    assert min(pauses) >= 0.05
