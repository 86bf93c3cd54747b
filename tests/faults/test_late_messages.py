"""Messages that arrive when the world has moved on."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from redis_locks import Lock, LockLost
from tests.faults.proxy import Proxy
from tests.support import timings
from tests.support.connections import on_receive
from tests.support.world import PATIENCE, Observer, World, held, until


def test_a_grant_that_ran_out_while_a_sign_of_life_was_on_its_way_is_not_believed(
    world: World, name: str, proxy: Proxy, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.waiters_ask_again_after(monkeypatch, 0.1)
    first = held(world, Lock(name))
    waiter = world.start(world.acquire, Lock(name, using=proxy.url, lease=0.2, wait=PATIENCE))
    server_side.until_waiters(name, 1)
    proxy.hold_back()
    until(lambda: proxy.held_back)
    world.release(first)  # hands the lock to the waiter, whose lease ends unused
    successor = held(world, Lock(name))
    proxy.let_go()
    _gets_the_lock_only_after(successor, waiter, world, server_side)


def test_a_grant_older_than_the_answer_that_somebody_else_holds_is_not_believed(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiter stands still between the end of its pause and its next sign of life."""
    timings.waiters_ask_again_after(monkeypatch, 0.1)
    standing, goes_on = threading.Event(), threading.Event()

    async def receive_and_stand_still(plain: Any, token: str, timeout: float) -> Any:
        message = await plain()
        if message is None and not standing.is_set():
            standing.set()
            goes_on.wait(PATIENCE)  # the loop stands still as well
        return message

    first = Lock(name).acquire()
    on_receive(monkeypatch, world.kind, receive_and_stand_still)
    waiter = world.start(world.acquire, Lock(name, lease=0.2, wait=PATIENCE))
    server_side.until_waiters(name, 1)
    assert standing.wait(PATIENCE)
    assert first is not None
    first.release()  # hands the lock to the waiter, whose lease ends unused
    successor = Lock(name).acquire()
    assert successor is not None
    goes_on.set()
    _gets_the_lock_only_after(successor, waiter, world, server_side)


def _gets_the_lock_only_after(
    successor: Any, waiter: Any, world: World, server_side: Observer
) -> None:
    name = successor.name
    until(lambda: server_side.waiters(name) or waiter.done())
    successor.check()
    successor.release()
    granted = waiter.result(PATIENCE)
    with suppress(LockLost):
        world.release(granted)
    assert granted.fencing_token > successor.fencing_token
