"""lock_timeout and lock_deadline against a lock that somebody else holds."""

from __future__ import annotations

import time

import pytest

from redis_locks import Hold, Lock, LockNotAvailable, LockTimeout, lock_deadline, lock_timeout
from tests.support import timings
from tests.support.world import PATIENCE, World, held


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is there, however long its answer takes."""
    timings.replies_may_be_late(monkeypatch, PATIENCE)


@pytest.mark.parametrize("wait", [None, 60])
def test_a_wait_ends_at_the_bound(world: World, name: str, wait: float | None, hold: Hold) -> None:
    started = time.monotonic()
    with lock_timeout(1), pytest.raises(LockTimeout, match=r"within 1 s"):
        world.block(Lock(name, wait=wait), lambda _: None)
    assert 1 <= time.monotonic() - started < 10
    world.release(hold)


def test_a_bound_of_nothing_asks_once(world: World, name: str, hold: Hold) -> None:
    with lock_timeout(0), pytest.raises(LockNotAvailable) as caught:
        world.block(Lock(name, wait=60), lambda _: None)
    assert not isinstance(caught.value, LockTimeout)
    world.release(hold)


def test_the_waits_of_a_block_end_together_at_its_deadline(
    world: World, name: str, hold: Hold
) -> None:
    started = time.monotonic()
    with lock_deadline(1):
        with pytest.raises(LockTimeout):
            world.block(Lock(name, wait=60), lambda _: None)
        with pytest.raises(LockNotAvailable) as caught:
            world.block(Lock(name, wait=60), lambda _: None)
        world.release(held(world, Lock(f"{name}:free")))
    assert 0.99 <= time.monotonic() - started < 10
    assert not isinstance(caught.value, LockTimeout)  # nothing was left to wait
    world.release(hold)
