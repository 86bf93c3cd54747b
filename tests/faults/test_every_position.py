"""One story for each kind of lock, told once for each of its replies: that one is lost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from redis_locks import Lock, Semaphore
from tests.faults.proxy import Proxy
from tests.support.world import PATIENCE, Observer, World, held

Make = Callable[[], Lock]

KINDS: dict[str, Callable[[str, str], Lock]] = {
    "exclusive": lambda name, url: Lock(name, using=url),
    "shared": lambda name, url: Lock(name, mode="shared", using=url),
    "set": lambda name, url: Lock(name, f"{name}:b", f"{name}:c", using=url),
    "semaphore": lambda name, url: Semaphore(name, 1, using=url),
}


def story(world: World, make: Make, rival: Lock, server_side: Observer) -> None:
    """Acquire, wait, extend, hand over, be refused, acquire again: nobody notices anything."""
    name = rival.name
    first = held(world, make())
    waiter = world.start(world.acquire, rival)
    server_side.until_waiters(name, 1)
    world.extend(first, 30)
    assert first.remaining > 20
    world.release(first)
    second = waiter.result(PATIENCE)
    assert second is not None
    assert world.acquire(make(), wait=0) is None
    world.release(second)
    third = held(world, make(), wait=0)
    assert first.fencing_token < second.fencing_token < third.fencing_token
    if third.mode == "shared":
        world.do(third, "upgrade", wait=0)
        world.do(third, "downgrade")
    world.release(third)
    assert not any(hold.is_lost for hold in (first, second, third))
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize("losses", [1, pytest.param(2, marks=pytest.mark.ci)])
@pytest.mark.parametrize("kind", KINDS)
def test_whichever_reply_is_lost_the_story_is_the_same(
    world: World, name: str, proxy: Proxy, server_side: Observer, kind: str, losses: int
) -> None:
    make, rival = (lambda: KINDS[kind](name, proxy.url)), Lock(name, using=proxy.url)
    for position in count(1):
        proxy.lose(position, losses=losses)
        story(world, make, rival, server_side)
        if not proxy.lost:
            break
    assert position > 8
