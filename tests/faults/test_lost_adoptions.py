"""A hold moved, and the reply that says so got lost: it is neither lost nor doubled."""

from __future__ import annotations

import pytest

from redis_locks import Lock, LockBackendError, LockLost
from tests.contract.test_transit import adopt
from tests.faults.proxy import Proxy
from tests.support.world import PATIENCE, Observer, World, held


@pytest.mark.parametrize("losses", [1, 2])
def test_a_lost_reply_neither_loses_nor_doubles_it(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    text = world.do(held(world, Lock(name, using=proxy.url, renew=False)), "detach")
    proxy.lose(1, losses=losses)
    adopted = adopt(world, text, using=proxy.url, renew=False)
    assert losses == proxy.lost
    assert adopted.token == server_side.holder(name)
    world.release(adopted)
    assert server_side.holder(name) is None


@pytest.mark.parametrize("losses", [1, 2])
def test_given_away_with_a_lost_reply_it_is_adopted_once(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    hold = held(world, Lock(name, using=proxy.url))
    proxy.lose(1, losses=losses)
    text = world.do(hold, "detach")
    assert losses == proxy.lost
    assert server_side.holder(name) not in {hold.token, None}
    adopted = adopt(world, text, using=proxy.url)
    assert hold.fencing_token == adopted.fencing_token
    world.release(adopted)
    assert set() == server_side.left_of(name) - {"index"}


def test_if_no_reply_comes_through_it_ends_with_its_lease_and_its_holder_knows(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    hold = held(world, Lock(name, using=proxy.url, lease=0.5))
    waiter = world.start(world.acquire, Lock(name, wait=PATIENCE))
    server_side.until_waiters(name, 1)
    proxy.lose(1, losses=10**9)
    with pytest.raises(LockBackendError):
        world.do(hold, "detach")
    proxy.lose(0)
    successor = waiter.result(PATIENCE)
    assert hold.is_lost
    with pytest.raises(LockLost):
        world.release(hold)
    world.release(successor)
