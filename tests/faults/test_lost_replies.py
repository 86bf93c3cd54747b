"""Lost replies that `test_every_position` leaves out: of renewals, all, and lost messages."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from redis_locks import Lock, LockBackendError, LockError, LockLost, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.support import calls
from tests.support.world import PATIENCE, Observer, World, held, in_line, until_renewed


@pytest.mark.parametrize("losses", [1, 2])
def test_a_renewal_whose_reply_was_lost_is_repeated(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    hold = held(world, Lock(name, using=proxy.url, lease=1.2))
    proxy.lose(1, losses=losses)
    until_renewed(hold)
    assert losses == proxy.lost
    world.release(hold)


def test_if_no_reply_to_a_detach_comes_through_it_ends_with_its_lease_and_its_holder_knows(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    hold = held(world, Lock(name, using=proxy.url, lease=0.5))
    waiter = in_line(world, Lock(name, wait=PATIENCE), server_side)
    proxy.lose(1, losses=10**9)
    with pytest.raises(LockBackendError):
        world.do(hold, "detach")
    proxy.lose(0)
    successor = waiter.result(PATIENCE)
    assert hold.is_lost
    with pytest.raises(LockLost):
        world.release(hold)
    world.release(successor)


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
