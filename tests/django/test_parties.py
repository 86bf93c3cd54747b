"""Everybody who holds or waits, who blocks whom, and the end of all that one host has."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest

from redis_locks import Hold, Lock, LockLost, inspection
from tests.support.inspection import before_cancel
from tests.support.parties import held, on_host, waited_for
from tests.support.world import until

pytestmark = pytest.mark.usefixtures("own_prefix")

HOST = socket.gethostname()


def test_parties_are_all_holders_and_waiters_by_lock_and_in_queue_order() -> None:
    with held("b"), held("a"), waited_for("b", "first"), waited_for("b", "second"):
        found = inspection.parties()
    assert ["a", "b"] == [holder.lock for holder in found.holders]
    assert [("b", "first"), ("b", "second")] == [(w.lock, w.label) for w in found.waiters]


def test_a_session_is_blocked_by_the_holders_of_what_it_waits_for() -> None:
    with held("a") as first, held("b"), held("c"), waited_for("a", "x"), waited_for("b", "y"):
        of = {waiter.label: waiter for waiter in inspection.parties().waiters}
        (blocker,) = inspection.blocking(of["x"].session)
        assert ("a", first.token) == (blocker.lock, blocker.token)
        # A token says its session too.
        assert [blocker.token] == [b.token for b in inspection.blocking(of["x"].token)]
        assert [] == inspection.blocking(blocker.session)


def test_drain_ends_all_holds_and_waits_of_a_host_and_nothing_else() -> None:
    with held("ours") as ours, waited_for("ours"), ExitStack() as theirs:
        theirs.enter_context(on_host("web-2"))
        holds = [theirs.enter_context(held(name)) for name in "ab"]
        told = theirs.enter_context(waited_for("ours"))
        ended = inspection.drain("web-2")
        assert ["a", "b"] == [holder.lock for holder in ended.holders]
        assert ["ours"] == [waiter.lock for waiter in ended.waiters]
        for hold in holds:
            with pytest.raises(LockLost):
                hold.extend(60)
        until(lambda: told)
        assert "cancelled" in str(told[0])
        ours.check()
        (left,) = inspection.locks()
        assert ("ours", 1) == (left.name, left.waiting)


def test_drain_does_not_hand_a_lock_from_one_thread_of_the_host_to_another() -> None:
    with on_host("web-2"), held("a"), waited_for("a") as told:
        ended = inspection.drain("web-2")
        assert (1, 1) == (len(ended.holders), len(ended.waiters))
        until(lambda: told)
    assert [] == inspection.names()


def test_a_wait_that_is_granted_before_drain_can_cancel_it_is_ended_as_a_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    granted: list[Hold | None] = []

    with held("a") as ours, on_host("web-2"):
        lock = Lock("a", wait=20, lease=60, renew=False)
        waiter = Thread(target=lambda: granted.append(lock.acquire()))
        waiter.start()
        until(lambda: inspection.parties().waiters)

        def too_late() -> None:
            ours.release()
            waiter.join()

        before_cancel(monkeypatch, too_late)
        ended = inspection.drain("web-2")
    assert () == ended.waiters
    (hold,) = granted
    assert hold
    assert [("a", hold.token)] == [(holder.lock, holder.token) for holder in ended.holders]
    with pytest.raises(LockLost):
        hold.release()


def test_a_wait_for_several_locks_is_cancelled_once_and_leaves_all_queues() -> None:
    with held("a"), held("b"), on_host("web-2"), waited_for("a", also=("b",)):
        ended = inspection.drain("web-2")
        assert ["a"] == [waiter.lock for waiter in ended.waiters]
        assert [] == inspection.contended()


def test_the_async_twins_answer_the_same() -> None:
    async def ask() -> tuple[Any, ...]:
        (waiter,) = (await inspection.aparties()).waiters
        (lock,) = await inspection.acontended()
        (blocker,) = await inspection.ablocking(waiter.session)
        assert await inspection.anames() == [lock.name]
        assert (await inspection.aparties()).holders[0].token == blocker.token
        return waiter, lock, blocker, await inspection.adrain(HOST)

    with held("a") as hold, waited_for("a"):
        waiter, lock, blocker, ended = asyncio.run(ask())
    assert ("a", hold.token, waiter.token) == (lock.name, blocker.token, ended.waiters[0].token)
    assert hold.token == ended.holders[0].token
