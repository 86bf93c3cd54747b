"""Receivers: none, failing, async, slow, broken off; none of them costs anybody a lock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from redis_locks import Lock, LockLost, redis_lock
from redis_locks.signals import LockEvent
from tests.signals.conftest import Connect, Heard
from tests.support import events as events_made
from tests.support import stored
from tests.support.keys import keys_of
from tests.support.leases import until_renewed
from tests.support.waiting import PATIENCE, until
from tests.support.world import Observer, Tasks, Threads, World, granted, held


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
    events_made.record_events_made(monkeypatch, counted)
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
    events_made.nobody_observes(monkeypatch)
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
    name: str, connect: Connect, server_side: Observer
) -> None:
    """Of the blocking world: one thread renews all holds."""
    slow, done = threading.Event(), threading.Event()

    def receive(event: LockEvent, **_: object) -> None:
        slow.set()
        assert done.wait(PATIENCE)

    connect("lost", receive)
    lost, kept = (granted(Lock(f"{name}:{i}", lease=2).acquire()) for i in range(2))
    stored.drop_holder(server_side.client, keys_of(f"{name}:0").lock)
    assert slow.wait(PATIENCE)
    until_renewed(kept)
    done.set()
    kept.release()
    with pytest.raises(LockLost):
        lost.release()


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
    name: str, make: Callable[..., Lock], heard: Heard, connect: Connect, server_side: Observer
) -> None:
    def interrupt(event: LockEvent, **_: object) -> None:
        raise KeyboardInterrupt

    connect("acquired", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make(name).acquire()
    assert set() == server_side.left_of(name)
    assert ["acquired", "released"] == heard.kinds


@pytest.mark.parametrize("kind", ["acquired", "contended"])
def test_a_receiver_that_takes_a_lock_in_a_loop_of_its_own_does_not_hide_the_hold_from_its_thread(
    name: str, connect: Connect, kind: str, server_side: Observer, settings: Any
) -> None:
    # They would want some events, too.
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "STATISTICS": False}

    def take_another() -> None:
        with Lock(f"{name}:audit"):
            pass

    def receive(event: LockEvent, **_: Any) -> None:
        if event.names == (name,):
            # asgiref leaves behind, in this thread, whose call it was.
            async_to_sync(sync_to_async(take_another))()

    def take_it_twice() -> bool:
        with Lock(name, wait=PATIENCE), Lock(name, wait=0.5):
            return True

    connect(kind, receive)
    with Lock(name):
        taking = Threads().start(take_it_twice)
        server_side.until_waiters(name, 1)
    assert taking.result(PATIENCE)
