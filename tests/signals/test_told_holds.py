"""What is told of holds: each beginning and each end, once, whatever took the lock."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest
from django.db.transaction import atomic

from redis_locks import (
    Lock,
    LockLost,
    LockNotAvailable,
    RedisLockMixin,
    Semaphore,
    redis_lock,
    run_once,
)
from redis_locks.testing import override_locks
from tests.signals.conftest import Heard
from tests.support.world import Observer, World, held


def test_a_hold_is_told_as_acquired_and_then_as_released(
    world: World, name: str, heard: Heard
) -> None:
    before = monotonic()
    hold = held(world, Lock(name, wait=3, lease=20, label="the test"))
    fencing_token = hold.fencing_token
    for _ in range(2):  # to release it again tells nothing
        world.release(hold)
    acquired, released = heard
    assert ("acquired", "released") == (acquired.kind, released.kind)
    assert (name, (name,), None) == (acquired.name, acquired.names, acquired.template)
    assert ("exclusive", 20.0, 3, 0.0) == (
        *(acquired.mode, acquired.lease, acquired.wait),
        acquired.waited,
    )
    assert acquired.who
    assert "the test" == acquired.who.label
    assert fencing_token == acquired.fencing_token == released.fencing_token
    assert before <= acquired.since == released.since
    assert 0 < released.held <= monotonic() - before
    with pytest.raises(dataclasses.FrozenInstanceError):
        acquired.kind = "lost"  # type: ignore[misc]


def test_a_set_of_locks_is_told_once_with_all_names(world: World, name: str, heard: Heard) -> None:
    world.release(held(world, Lock(f"{name}:a", f"{name}:b")))
    assert [(f"{name}:a", f"{name}:b")] * 2 == [event.names for event in heard]


def test_a_commit_is_told_as_the_release_that_it_is(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    hold = held(world, Lock(name))
    pipe = server_side.client.pipeline().set(f"{name}:written", 1)
    world.do(hold, "commit", pipe)
    assert ["acquired", "released"] == heard.kinds
    assert server_side.client.delete(f"{name}:written")


def test_a_hold_that_changes_its_mode_goes_on(world: World, name: str, heard: Heard) -> None:
    hold = held(world, Lock(name, mode="shared"))
    world.do(hold, "upgrade")
    assert "exclusive" == hold.mode
    upgraded = hold.fencing_token
    world.do(hold, "downgrade")
    world.do(hold, "upgrade")
    world.release(hold)
    acquired, released = heard
    assert ("shared", "exclusive") == (acquired.mode, released.mode)
    assert acquired.since == released.since
    assert acquired.fencing_token < upgraded < released.fencing_token


def test_a_permit_is_told_with_its_capacity(world: World, name: str, heard: Heard) -> None:
    world.release(held(world, Semaphore(name, 3)))
    assert ["permit:3", "permit:3"] == [event.mode for event in heard]


def test_a_kept_hold_is_told_as_released_when_its_transaction_has_ended(
    name: str, heard: Heard, transactional_db: None
) -> None:
    with atomic():
        with redis_lock(name):
            pass
        with redis_lock(name):
            pass
        assert ["acquired"] == heard.kinds
    assert ["acquired", "released"] == heard.kinds


def test_nested_holds_are_told_as_the_one_that_they_are(name: str, heard: Heard) -> None:
    with Lock(name), Lock(name):
        pass
    assert ["acquired", "released"] == heard.kinds


def test_an_attempt_at_a_job_is_told_as_the_hold_that_it_is(name: str, heard: Heard) -> None:
    with run_once(name).acquire(), suppress(LockNotAvailable):  # type: ignore[union-attr]
        run_once(name, wait=0).acquire()
    assert ["acquired", "contended", "released"] == heard.kinds


def test_a_name_made_by_a_template_comes_with_it(name: str, heard: Heard, rf: Any) -> None:
    @redis_lock(name + ":{number}")
    def by_template(number: int) -> None: ...

    @redis_lock(lambda number: f"{name}:{number}")
    def by_callable(number: int) -> None: ...

    class ByView(RedisLockMixin):
        lock_name = name + ":{pk}"

    @run_once(name + ":{number}:once")
    def once(number: int) -> None: ...

    @run_once(lambda number: f"{name}:{number}")
    def once_by_callable(number: int) -> None: ...

    by_template(1)
    by_callable(2)
    ByView.request = rf.post("/")  # type: ignore[attr-defined]
    with ByView()._lock_named(f"{name}:3"):
        pass
    once(4)
    once_by_callable(5)
    with run_once(f"{name}:6"):
        pass
    expected = [
        (f"{name}:1", name + ":{number}"),
        (f"{name}:2", f"{__name__}.{by_callable.__qualname__}"),
        (f"{name}:3", name + ":{pk}"),
        (f"{name}:4:once", name + ":{number}:once"),
        (f"{name}:5", f"{__name__}.{once_by_callable.__qualname__}"),
        (f"{name}:6", None),
    ]
    assert expected == [(event.name, event.template) for event in heard[::2]]


@pytest.mark.parametrize(
    ("outcome", "kinds"),
    [
        ("granted", ["acquired", "released"]),
        ("busy", ["contended", "timed_out"]),
        ("lost", ["acquired", "lost"]),
    ],
)
def test_the_test_kit_tells_what_a_server_would(
    outcome: Any, kinds: list[str], name: str, heard: Heard
) -> None:
    with override_locks(outcome), suppress(LockLost, LockNotAvailable), redis_lock(name, wait=5):
        pass
    assert kinds == heard.kinds
