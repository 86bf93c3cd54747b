"""What is told of locks: each beginning, each end once, and what was in the way."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
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
    observing,
    redis_lock,
    run_once,
)
from redis_locks.signals import LockEvent
from redis_locks.testing import override_locks
from tests.contract.world import PATIENCE, Observer, Tasks, World, held, keys_of, until
from tests.signals.conftest import IMPATIENT, Connect, Heard, deadlocked


def test_a_hold_is_told_as_acquired_and_then_as_released(
    world: World, name: str, heard: Heard
) -> None:
    before = monotonic()
    hold = held(world, Lock(name, wait=3, lease=20, label="the test"))
    fencing_token = hold.fencing_token
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


def test_an_event_cannot_be_changed(world: World, name: str, heard: Heard) -> None:
    world.release(held(world, Lock(name)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        heard[0].kind = "lost"  # type: ignore[misc]


def test_releasing_again_tells_nothing(world: World, name: str, heard: Heard) -> None:
    hold = held(world, Lock(name))
    world.release(hold)
    world.release(hold)
    assert ["acquired", "released"] == heard.kinds


def test_a_set_of_locks_is_told_once_with_all_names(world: World, name: str, heard: Heard) -> None:
    world.release(held(world, Lock(f"{name}:a", f"{name}:b")))
    assert [(f"{name}:a", f"{name}:b")] * 2 == [event.names for event in heard]


def test_a_wait_tells_who_is_in_the_way_and_how_long_it_took(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    first = held(world, Lock(name, label="the first"))
    waiter = world.start(world.acquire, Lock(name, wait=PATIENCE))
    server_side.until_waiters(name, 1)
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


def test_a_wait_in_vain_is_told_as_timed_out(world: World, name: str, heard: Heard) -> None:
    hold = held(world, Lock(name, label="the first"))
    assert world.acquire(Lock(name), wait=0.05) is None
    assert ["acquired", "contended", "timed_out"] == heard.kinds
    assert 0.05 == heard[2].wait <= heard[2].waited
    assert "the first" in str(heard[2].holder)
    world.release(hold)


def test_a_revoked_hold_is_told_as_lost_once_by_renewal(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=0.6, renew=True))
    server_side.client.delete(keys_of(name).holder)
    until(lambda: "lost" in heard.kinds)
    with pytest.raises(LockLost):
        world.release(hold)
    assert ["acquired", "lost"] == heard.kinds
    lost = heard.only("lost")
    assert "does not know" in lost.reason
    assert heard[0].since == lost.since
    assert 0 < lost.held <= monotonic() - lost.since


@pytest.mark.parametrize("verb", ["release", "extend"])
def test_a_hold_that_is_not_renewed_is_told_as_lost_when_its_holder_finds_out(
    world: World, name: str, heard: Heard, verb: str
) -> None:
    hold = held(world, Lock(name, lease=0.05, renew=False))
    until(lambda: hold.is_lost)
    if verb == "extend":
        with pytest.raises(LockLost):
            world.extend(hold, 1)
    for _ in range(2):
        with suppress(LockLost):
            world.release(hold)
    until(lambda: len(heard.kinds) > 1)  # by whoever found out first
    assert ["acquired", "lost"] == heard.kinds
    assert 0.05 == pytest.approx(heard[1].held)
    assert "its lease ended" == heard[1].reason


def test_a_loss_found_at_the_release_is_told_once(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    hold = held(world, Lock(name))
    server_side.client.delete(keys_of(name).holder)
    with pytest.raises(LockLost):
        world.release(hold)
    assert ["acquired", "lost"] == heard.kinds
    assert "does not know" in heard[1].reason


def test_a_commit_is_told_as_the_release_that_it_is(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    hold = held(world, Lock(name))
    pipe = server_side.client.pipeline().set(f"{name}:written", 1)
    world.do(hold, "commit", pipe)
    assert ["acquired", "released"] == heard.kinds
    assert server_side.client.delete(f"{name}:written")


def test_a_commit_of_a_lost_hold_is_told_as_lost(
    world: World, name: str, heard: Heard, server_side: Observer
) -> None:
    hold = held(world, Lock(name))
    server_side.client.delete(keys_of(name).holder)
    with pytest.raises(LockLost):
        world.do(hold, "commit", server_side.client.pipeline().get(name))
    with suppress(LockLost):
        world.release(hold)
    assert ["acquired", "lost"] == heard.kinds


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


def test_an_upgrade_in_vain_is_told_with_its_mode(world: World, name: str, heard: Heard) -> None:
    shared = [held(world, Lock(name, mode="shared")) for _ in range(2)]
    with pytest.raises(LockNotAvailable):
        world.do(shared[0], "upgrade", wait=0.05)
    assert "upgrade" == heard.only("contended").mode == heard.only("timed_out").mode
    for hold in shared:
        world.release(hold)


def test_a_permit_is_told_with_its_capacity(world: World, name: str, heard: Heard) -> None:
    world.release(held(world, Semaphore(name, 3)))
    assert ["permit:3", "permit:3"] == [event.mode for event in heard]


def test_a_deadlock_is_told_with_its_circle(
    name: str, heard: Heard, redis_server: object, settings: Any
) -> None:
    settings.REDIS_LOCKS = IMPATIENT
    victim = deadlocked(name)
    told = heard.only("deadlock")
    assert victim.circle == told.circle
    assert 2 == len(told.circle)
    assert 0.1 < told.waited < PATIENCE


def test_a_kept_hold_is_told_as_released_when_its_transaction_has_ended(
    name: str, heard: Heard, transactional_db: None, redis_server: object
) -> None:
    with atomic():
        with redis_lock(name):
            pass
        with redis_lock(name):
            pass
        assert ["acquired"] == heard.kinds
    assert ["acquired", "released"] == heard.kinds


def test_nested_holds_are_told_as_the_one_that_they_are(
    name: str, heard: Heard, redis_server: object
) -> None:
    with Lock(name), Lock(name):
        pass
    assert ["acquired", "released"] == heard.kinds


def test_an_attempt_at_a_job_is_told_as_the_hold_that_it_is(
    name: str, heard: Heard, redis_server: object
) -> None:
    with run_once(name).acquire(), suppress(LockNotAvailable):  # type: ignore[union-attr]
        run_once(name, wait=0).acquire()
    assert ["acquired", "contended", "released"] == heard.kinds


def test_a_name_made_by_a_template_comes_with_it(
    name: str, heard: Heard, rf: Any, redis_server: object
) -> None:
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
    with ByView()._lock_of(f"{name}:3"):
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


class Counted:
    """Counts how many events are made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, **fields: Any) -> LockEvent:
        self.made += 1
        return LockEvent(**fields)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Counted:
    counted = Counted()
    monkeypatch.setattr(observing, "LockEvent", counted)
    caplog.set_level("CRITICAL", "redis_locks")
    return counted


def test_nothing_is_made_while_nobody_listens(
    world: World, name: str, events: Counted, connect: Connect
) -> None:
    def everything() -> None:
        hold = held(world, Lock(name, renew=False, lease=20))
        assert world.acquire(Lock(name), wait=0.01) is None
        world.release(hold)

    everything()
    assert 0 == events.made
    connect("released", lambda event, **_: None)
    everything()
    assert 1 == events.made


def test_nothing_is_told_where_the_app_is_not_installed(
    world: World, name: str, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "observer", None)
    world.release(held(world, Lock(name)))
    assert [] == heard


def test_a_failing_receiver_is_logged_and_changes_nothing(
    world: World,
    name: str,
    heard: Heard,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
    server_side: Observer,
) -> None:
    def fail(event: LockEvent, **_: object) -> None:
        msg = f"wrong in {event.kind}"
        raise RuntimeError(msg)

    for kind in ("acquired", "contended", "timed_out", "released"):
        connect(kind, fail)
    hold = held(world, Lock(name))
    assert world.acquire(Lock(name), wait=0.01) is None
    world.release(hold)
    assert set() == server_side.left_of(name)
    assert ["acquired", "contended", "timed_out", "released"] == heard.kinds
    assert all(f"wrong in {kind}" in caplog.text for kind in heard.kinds)


def test_async_receivers_are_called_from_both_worlds(
    world: World, name: str, connect: Connect
) -> None:
    called: list[str] = []

    async def receive(event: LockEvent, **_: object) -> None:
        called.append(event.kind)

    for kind in ("acquired", "released"):
        connect(kind, receive)
    world.release(held(world, Lock(name)))
    assert ["acquired", "released"] == called


def test_in_async_code_a_plain_receiver_runs_in_the_event_loop_s_thread(
    tasks: Tasks, name: str, connect: Connect
) -> None:
    threads: list[int] = []
    connect("acquired", lambda event, **_: threads.append(threading.get_ident()))
    tasks.release(held(tasks, Lock(name)))
    assert [tasks._thread.ident] == threads


def test_a_receiver_that_takes_its_time_costs_no_other_hold_its_lease(
    name: str, connect: Connect, redis_server: object, server_side: Observer
) -> None:
    """Of the blocking world: one thread renews all holds."""
    slow, done = threading.Event(), threading.Event()

    def receive(event: LockEvent, **_: object) -> None:
        slow.set()
        assert done.wait(PATIENCE)

    connect("lost", receive)
    lost, kept = (held_now(Lock(f"{name}:{i}", lease=0.6)) for i in range(2))
    server_side.client.delete(keys_of(f"{name}:0").holder)
    assert slow.wait(PATIENCE)
    deadline = kept._lease.deadline
    until(lambda: kept._lease.deadline > deadline)
    done.set()
    kept.release()
    with pytest.raises(LockLost):
        lost.release()


def held_now(lock: Lock) -> Any:
    hold = lock.acquire(wait=0)
    assert hold is not None
    return hold


def test_a_task_cancelled_while_a_receiver_runs_leaves_nothing_and_is_told_as_released(
    tasks: Tasks, name: str, heard: Heard, connect: Connect, server_side: Observer
) -> None:
    async def forever(event: LockEvent, **_: object) -> None:
        await asyncio.sleep(PATIENCE * 2)

    connect("acquired", forever)
    acquiring = tasks.start(tasks.acquire, Lock(name))
    until(lambda: "acquired" in heard.kinds)
    acquiring.cancel()
    until(lambda: ["acquired", "released"] == heard.kinds)
    until(lambda: set() == server_side.left_of(name))


@pytest.mark.parametrize("make", [Lock, redis_lock])
def test_an_interrupt_in_a_receiver_gives_the_hold_back(
    name: str,
    make: Callable[..., Lock],
    heard: Heard,
    connect: Connect,
    server_side: Observer,
) -> None:
    def interrupt(event: LockEvent, **_: object) -> None:
        raise KeyboardInterrupt

    connect("acquired", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make(name).acquire()
    assert set() == server_side.left_of(name)
    assert ["acquired", "released"] == heard.kinds
