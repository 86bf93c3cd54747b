"""Receivers that take locks themselves, or have others take some: whose hold it is stays clear."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from redis_locks import Hold, Lock, LockLost
from redis_locks.signals import LockEvent
from tests.elsewhere import in_thread
from tests.signals.conftest import Connect
from tests.support.world import PATIENCE, Observer, Threads, granted


def test_a_receiver_that_takes_the_lock_that_it_is_told_of_gets_a_nested_hold(
    name: str, connect: Connect
) -> None:
    took: list[int] = []

    def receive(event: LockEvent, **_: Any) -> None:
        if not took:
            with Lock(name, wait=0) as nested:
                took.append(nested.fencing_token)

    connect("acquired", receive)
    with Lock(name) as hold:
        assert [hold.fencing_token] == took
        hold.check()


def test_what_a_receiver_took_is_lost_with_the_hold_that_it_was_nested_in(
    name: str, connect: Connect
) -> None:
    took: list[Hold | None] = []

    def receive(event: LockEvent, **_: Any) -> None:
        if not took:
            took.append(Lock(name).acquire(wait=0))
            raise KeyboardInterrupt

    connect("acquired", receive)
    with pytest.raises(KeyboardInterrupt), Lock(name):
        pytest.fail("the interrupt comes before")
    (nested,) = took
    assert nested.is_lost
    with suppress(LockLost):
        nested.release()
    with Lock(name, wait=0):
        pass


def test_in_a_call_of_sync_to_async_a_receiver_that_locks_in_another_thread_hides_no_hold(
    name: str, connect: Connect, server_side: Observer, settings: Any
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "STATISTICS": False}  # it wants events, too

    def take_another() -> None:
        with Lock(f"{name}:audit"):
            pass

    def receive(event: LockEvent, **_: Any) -> None:
        if event.names == (name,):
            # asgiref gives back to this call what that one has changed in its context.
            async_to_sync(sync_to_async(take_another, thread_sensitive=False))()

    has_it = threading.Event()

    def hold_for_a_moment() -> None:
        with Lock(name):
            has_it.set()
            server_side.until_waiters(name, 1)

    def view() -> bool:
        with Lock(f"{name}:first"):
            pass
        other = Threads().start(hold_for_a_moment)
        assert has_it.wait(PATIENCE)
        with Lock(name, wait=PATIENCE), Lock(name, wait=0.5):
            other.result(PATIENCE)
            return True

    connect("contended", receive)
    assert asyncio.run(sync_to_async(view)())


def test_a_receiver_that_calls_async_code_is_no_second_order_of_the_locks(
    name: str, connect: Connect, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "WARN_ORDER": True}
    connect("acquired", lambda event, **_: async_to_sync(sync_to_async(lambda: None))())
    pair = Lock(f"{name}:a", f"{name}:b")
    in_thread(lambda: [granted(pair.acquire()).release() for _ in range(2)])
    assert "order" not in caplog.text
