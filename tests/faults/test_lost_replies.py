"""The command ran, its reply got lost: nothing happens twice, and nothing is reported as a failure."""

from __future__ import annotations

import pytest

from redis_locks import Lock, LockError, LockTimeout, inspection
from tests.faults.proxy import Proxy
from tests.support import stored
from tests.support.world import PATIENCE, Observer, World, held, keys_of, until, until_renewed

pytestmark = pytest.mark.parametrize("losses", [1, 2])


def test_a_grant_whose_reply_was_lost_is_given_once(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    lock = Lock(name, using=proxy.url, lease=20)
    world.release(held(world, lock))
    proxy.lose(1, losses=losses)
    hold = held(world, lock, wait=0)
    assert losses == proxy.lost
    assert hold.token == server_side.holder(name)
    assert hold.fencing_token == stored.fence(server_side.client, keys_of(name).lock)
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_a_force_release_whose_reply_was_lost_says_what_it_did(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    hold = held(world, Lock(name, lease=60))
    waiter = world.start(world.acquire, Lock(name, lease=60))
    server_side.until_waiters(name, 1)
    assert inspection.lock(name, using=proxy.url)  # so it is connected
    proxy.lose(1, losses=losses)
    released = inspection.force_release(name, tokens=[hold.token], using=proxy.url)
    assert (losses, 1) == (proxy.lost, released.ended)
    successor = waiter.result(PATIENCE)
    assert hold.fencing_token < released.fencing_token < successor.fencing_token
    until(lambda: hold.is_lost)
    world.release(successor)


def test_a_cancellation_whose_reply_was_lost_is_reported_as_one(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    hold = held(world, Lock(name))
    waiter = world.start(world.acquire, Lock(name, wait=None))
    server_side.until_waiters(name, 1)
    info = inspection.lock(name, using=proxy.url)
    proxy.lose(1, losses=losses)
    assert inspection.cancel(info.waiters[0], using=proxy.url)  # type: ignore[union-attr]
    assert losses == proxy.lost
    with pytest.raises(LockError, match="cancelled by an operator"):
        waiter.result(PATIENCE)
    world.release(hold)


def test_a_renewal_whose_reply_was_lost_is_repeated(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    hold = held(world, Lock(name, using=proxy.url, lease=1.2))
    proxy.lose(1, losses=losses)
    until_renewed(hold)
    assert losses == proxy.lost
    world.release(hold)


def test_giving_up_with_a_lost_reply_leaves_nothing_in_the_queue(
    world: World, name: str, proxy: Proxy, server_side: Observer, losses: int
) -> None:
    hold = held(world, Lock(name))
    proxy.lose(
        2, losses=losses
    )  # the first reply says to wait, the second one answers the giving up
    with pytest.raises(LockTimeout):
        world.block(Lock(name, using=proxy.url, wait=0.1), lambda _: None)
    assert losses == proxy.lost
    assert 0 == server_side.waiters(name)
    world.release(hold)
    assert set() == server_side.left_of(name)
