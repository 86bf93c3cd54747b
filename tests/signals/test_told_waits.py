"""What is told of waits: who is in the way, for how long, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks import Lock, LockBackendError, LockNotAvailable
from tests.signals.conftest import IMPATIENT, Heard, deadlocked
from tests.support.world import PATIENCE, Observer, World, held, in_line, until


def test_a_wait_tells_who_is_in_the_way_and_how_long_it_took(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    first = held(world, Lock(name, label="the first"))
    waiter = in_line(world, Lock(name, wait=PATIENCE), server_side)
    until(lambda: "contended" in heard.kinds)
    world.release(first)
    second = waiter.result(PATIENCE)
    contended = heard.only("contended")
    assert (PATIENCE, 0.0, 0) == (contended.wait, contended.waited, contended.fencing_token)
    assert "the first" in str(contended.holder)
    (acquired,) = [event for event in heard[1:] if event.kind == "acquired"]
    assert second.fencing_token == acquired.fencing_token
    assert 0 < acquired.waited < PATIENCE
    world.release(second)


def test_a_lock_that_is_not_waited_for_is_told_as_contended_only(
    world: World, name: str, heard: Heard
) -> None:
    hold = held(world, Lock(name))
    assert world.acquire(Lock(name), wait=0) is None
    assert ["acquired", "contended"] == heard.kinds
    assert 0 == heard[1].wait
    world.release(hold)


def test_an_acquire_that_cannot_ask_is_told_as_unavailable(
    world: World, name: str, heard: Heard
) -> None:
    with pytest.raises(LockBackendError):
        world.acquire(Lock(name, using="unix:///nonexistent/redis.sock"), wait=0)
    assert ["unavailable"] == heard.kinds
    assert "nonexistent" in heard[0].reason
    assert 0 == heard[0].wait


def test_a_wait_in_vain_is_told_as_timed_out(world: World, name: str, heard: Heard) -> None:
    hold = held(world, Lock(name, label="the first"))
    assert world.acquire(Lock(name), wait=0.05) is None
    assert ["acquired", "contended", "timed_out"] == heard.kinds
    assert 0.05 == heard[2].wait <= heard[2].waited
    assert "the first" in str(heard[2].holder)
    world.release(hold)


def test_an_upgrade_in_vain_is_told_with_its_mode(world: World, name: str, heard: Heard) -> None:
    shared = [held(world, Lock(name, mode="shared")) for _ in range(2)]
    with pytest.raises(LockNotAvailable):
        world.do(shared[0], "upgrade", wait=0.05)
    assert "upgrade" == heard.only("contended").mode == heard.only("timed_out").mode
    for hold in shared:
        world.release(hold)


def test_a_deadlock_is_told_with_its_circle(name: str, heard: Heard, settings: Any) -> None:
    settings.REDIS_LOCKS = IMPATIENT
    victim = deadlocked(name)
    told = heard.only("deadlock")
    assert victim.circle == told.circle
    assert 2 == len(told.circle)
    assert 0.1 < told.waited < PATIENCE
