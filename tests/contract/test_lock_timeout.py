"""lock_timeout against a lock that somebody else holds."""

from __future__ import annotations

import time

import pytest

from redis_locks import Lock, LockNotAvailable, LockTimeout, lock_timeout
from tests.contract.world import World, held


@pytest.mark.parametrize("wait", [None, 60])
def test_a_wait_ends_at_the_bound(world: World, name: str, wait: float | None) -> None:
    hold = held(world, Lock(name))
    started = time.monotonic()
    with lock_timeout(0.2), pytest.raises(LockTimeout, match=r"within 0.2 s"):
        world.block(Lock(name, wait=wait), lambda _: None)
    assert 0.2 <= time.monotonic() - started < 10
    world.release(hold)


def test_a_bound_of_nothing_asks_once(world: World, name: str) -> None:
    hold = held(world, Lock(name))
    with lock_timeout(0), pytest.raises(LockNotAvailable) as caught:
        world.block(Lock(name, wait=60), lambda _: None)
    assert not isinstance(caught.value, LockTimeout)
    world.release(hold)
