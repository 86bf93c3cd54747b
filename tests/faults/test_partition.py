"""The network lets nothing through for a while."""

from __future__ import annotations

import time

import pytest

from redis_locks import Lock, LockBackendError, LockLost
from tests.faults.proxy import Proxy
from tests.support import leases
from tests.support.world import PATIENCE, Observer, World, held, in_line, until


@pytest.mark.parametrize("renew", [True, False])
def test_a_holder_cut_off_knows_that_it_lost_before_the_server_gives_the_lock_on(
    world: World, name: str, proxy: Proxy, server_side: Observer, renew: bool
) -> None:
    hold = held(world, Lock(name, using=proxy.url, lease=0.9, renew=renew))
    waiter = in_line(world, Lock(name), server_side)
    proxy.part()
    successor = waiter.result(PATIENCE)
    granted_at = time.monotonic()
    assert hold.is_lost
    assert leases.ends_at(hold) < granted_at
    proxy.heal()
    # Lost either way; whether Redis could be told as well depends on when the cut is noticed.
    with pytest.raises((LockLost, LockBackendError)):
        world.release(hold)
    assert hold.is_lost
    assert successor.token == server_side.holder(name)
    world.release(successor)
    world.release(held(world, Lock(name, using=proxy.url)))


def test_a_waiter_cut_off_delays_the_queue_by_its_lease_at_most_and_queues_again(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    hold = held(world, Lock(name))
    cut_off = in_line(world, Lock(name, using=proxy.url, lease=0.5, wait=PATIENCE), server_side)
    heir = in_line(world, Lock(name, lease=0.5, wait=PATIENCE), server_side, place=2)
    proxy.part()
    freed = time.monotonic()
    world.release(hold)
    granted = heir.result(PATIENCE)
    assert time.monotonic() - freed < PATIENCE / 2  # half a second, and a busy machine
    proxy.heal()
    server_side.until_waiters(name, 1)
    assert not cut_off.done()
    world.release(granted)
    again = cut_off.result(PATIENCE)
    assert again.fencing_token > granted.fencing_token
    world.release(again)


def test_a_waiter_that_cannot_leave_the_queue_tries_for_one_lease_only(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    hold = held(world, Lock(name))
    began = time.monotonic()
    waiter = in_line(world, Lock(name, using=proxy.url, lease=1.0, wait=0.5), server_side)
    proxy.lose(1, losses=10**9)
    with pytest.raises(LockBackendError):
        waiter.result(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2  # a lease, and a busy machine
    proxy.lose(0)
    world.release(hold)
    world.release(held(world, Lock(name)))


def test_a_hold_outlives_a_partition_shorter_than_its_lease(
    world: World, name: str, proxy: Proxy, server_side: Observer
) -> None:
    hold = held(world, Lock(name, using=proxy.url, lease=3))
    proxy.part()
    until(lambda: hold.remaining < 1.8)  # the first renewal, a third through, was swallowed
    proxy.heal()
    leases.until_renewed(hold)
    world.release(hold)
