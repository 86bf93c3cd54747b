"""A release that runs twice frees one permit, never another holder's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from redis_locks import Hold, LockLost, Semaphore, inspection
from tests.faults.proxy import Proxy
from tests.support import scripts
from tests.support.keys import set_keys
from tests.support.world import PATIENCE, Observer, World, held, in_line, until

pytestmark = pytest.mark.parametrize("capacity", [1, 3])


def holders(name: str) -> set[str]:
    """The tokens that have a permit on the server."""
    info = inspection.lock(name)
    return {holder.token for holder in info.holders} if info else set()


def is_full(world: World, semaphore: Semaphore, holds: list[Hold]) -> bool:
    """Whether just these have the permits, and nobody else gets one."""
    tokens = {hold.token for hold in holds}
    return holders(semaphore.name) == tokens and world.acquire(semaphore, wait=0) is None


@pytest.mark.parametrize("losses", [1, 3])
def test_releasing_again_leaves_the_permits_of_others(
    world: World, name: str, proxy: Proxy, server_side: Observer, capacity: int, losses: int
) -> None:
    semaphore = Semaphore(name, capacity, using=proxy.url)
    first, *others = [held(world, semaphore) for _ in range(capacity)]
    waiter = in_line(world, semaphore, server_side)
    proxy.lose(1, losses=losses)
    for _ in range(3):
        world.start(world.release, first).result(PATIENCE)
    assert losses == proxy.lost
    holds = [*others, waiter.result(PATIENCE)]
    world.release(first)
    assert is_full(world, semaphore, holds)
    for hold in holds:
        world.release(hold)


def test_releasing_a_permit_whose_lease_ended_leaves_the_permits_of_others(
    world: World, name: str, proxy: Proxy, server_side: Observer, capacity: int
) -> None:
    semaphore = Semaphore(name, capacity, using=proxy.url)
    late = held(world, Semaphore(name, capacity, using=proxy.url, lease=0.02, renew=False))
    until(lambda: late.is_lost)
    holds = [held(world, semaphore) for _ in range(capacity)]
    proxy.lose(1, losses=2)
    for _ in range(3):
        with suppress(LockLost):
            world.release(late)
    assert is_full(world, semaphore, holds)
    for hold in holds:
        world.release(hold)


def test_a_release_that_reaches_the_server_again_later_frees_nothing(
    world: World, name: str, server_side: Observer, capacity: int
) -> None:
    semaphore = Semaphore(name, capacity)
    first, *others = [held(world, semaphore) for _ in range(capacity)]
    world.release(first)
    holds = [*others, held(world, semaphore)]
    waiter = in_line(world, semaphore, server_side)
    keys = set_keys("redis_locks", 0, (name,))
    for _ in range(3):
        server_side.client.eval(scripts.RELEASE.text, len(keys), *keys, first.token)
    assert is_full(world, semaphore, holds)
    assert 1 == server_side.waiters(name)
    world.release(holds.pop())
    holds.append(waiter.result(PATIENCE))
    assert is_full(world, semaphore, holds)
    for hold in holds:
        world.release(hold)


@pytest.mark.verdict
def test_never_more_hold_than_the_capacity_while_every_release_is_repeated(
    world: World, name: str, proxy: Proxy, server_side: Observer, capacity: int
) -> None:
    semaphore = Semaphore(name, capacity, using=proxy.url)
    inside: set[str] = set()
    crowds: list[int] = []

    def work() -> None:
        for _ in range(10):
            hold = held(world, semaphore, wait=60)
            inside.add(hold.token)
            crowds.append(len(inside))
            assert hold.token in holders(name)
            inside.remove(hold.token)
            world.release(hold)
            world.release(hold)

    proxy.lose(1, every=4)
    with ThreadPoolExecutor(capacity + 3) as pool:
        workers = [pool.submit(work) for _ in range(capacity + 3)]
    for worker in workers:
        worker.result()
    assert proxy.lost
    assert max(crowds) <= capacity
