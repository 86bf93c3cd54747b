"""A wait is cancelled while its waiter hears nothing: on its way to another connection, or to a server that is back."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from redis_locks import Lock, LockError, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.support import calls
from tests.support.world import PATIENCE, Observer, World, held


def test_a_waiter_that_was_cancelled_between_two_connections_does_not_come_back(
    world: World, name: str, private_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks, go = threading.Event(), threading.Event()

    async def held_up(plain: calls.Handler, *args: Any, **options: Any) -> Any:
        if not options["first"]:
            asks.set()
            assert go.wait(PATIENCE)
        return await plain(*args, **options)

    hold = held(world, Lock(name, using=private_server.url, lease=2 * PATIENCE, renew=False))
    calls.intercept(monkeypatch, "acquire", held_up)
    waiting = world.start(world.acquire, Lock(name, using=private_server.url, wait=None))
    with private_server.client() as client:
        Observer(client).until_waiters(name, 1)
        info = inspection.lock(name, using=private_server.url)
        assert info is not None
        client.client_kill_filter(skipme=True)
        assert asks.wait(PATIENCE)
        assert inspection.cancel(info.waiters[0], using=private_server.url)
        go.set()
        with pytest.raises(LockError, match="cancelled by an operator"):
            waiting.result(PATIENCE)
        world.release(hold)
        assert set() == Observer(client).left_of(name)
