"""Everybody who holds or waits, who blocks whom, and the end of all that one host has."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest

from redis_locks import Hold, Lock, LockBackendError, LockLost, Semaphore, inspection
from tests.support.inspection import before_cancel, list_waiters
from tests.support.parties import held, on_host, waited_for
from tests.support.world import until

pytestmark = pytest.mark.usefixtures("own_prefix")

HOST = socket.gethostname()
DOWN = "unix:///nonexistent/server.sock"


def test_parties_are_all_holders_and_waiters_by_lock_and_in_queue_order() -> None:
    with held("b"), held("a"), waited_for("b", "first"), waited_for("b", "second"):
        found = inspection.parties()
    assert ["a", "b"] == [holder.lock for holder in found.holders]
    assert [("b", "first"), ("b", "second")] == [(w.lock, w.label) for w in found.waiters]


def test_parties_tell_the_hosts_they_are_on() -> None:
    with held("a"), on_host("web-2"), held("b"), waited_for("a"):
        assert sorted([HOST, "web-2"]) == inspection.parties().hosts


def test_a_queue_that_is_longer_than_a_listing_shows_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    list_waiters(monkeypatch, 1)
    labels = ["first", "second", "third"]
    with held("a"), ExitStack() as queue:
        for label in labels:
            queue.enter_context(waited_for("a", label))
        assert labels == [waiter.label for waiter in inspection.waiters()]
        assert labels == [waiter.label for waiter in inspection.contended()[0].waiters]


def test_more_holders_than_a_listing_shows_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    list_waiters(monkeypatch, 1)
    exports = Semaphore("exports", 3)
    with exports, exports, exports:
        assert 3 == len(inspection.parties().holders)


def test_contended_locks_are_those_that_somebody_waits_for() -> None:
    with held("a"), held("b"), waited_for("b"):
        assert ["b"] == [lock.name for lock in inspection.contended()]


def test_a_session_is_blocked_by_the_holders_of_what_it_waits_for() -> None:
    with held("a") as first, held("b"), held("c"), waited_for("a", "x"), waited_for("b", "y"):
        of = {waiter.label: waiter for waiter in inspection.waiters()}
        (blocker,) = inspection.blocking(of["x"].session)
        assert ("a", first.token) == (blocker.lock, blocker.token)
        # A token says its session too.
        assert [blocker.token] == [b.token for b in inspection.blocking(of["x"].token)]
        assert [] == inspection.blocking(blocker.session)


def test_what_one_thread_holds_and_waits_for_is_one_session() -> None:
    with held("a"), waited_for("a", "x", holding="b"):
        found = inspection.parties()
        (waiter,) = found.waiters
        (mine,) = [holder for holder in found.holders if holder.lock == "b"]
    assert waiter.session == mine.session


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        (17, TypeError, "session must be a string, not 17"),
        ("", ValueError, "session must not be empty"),
        (
            "web-3",
            ValueError,
            "session 'web-3' is neither a session nor a token of one; use .session",
        ),
        ("abc.1 0", ValueError, "is neither a session nor a token"),
    ],
)
def test_a_session_that_is_none_is_refused(asked: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        inspection.blocking(asked)


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
        until(inspection.waiters)

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


def test_a_dry_run_says_what_there_is_to_be_ended_and_ends_nothing() -> None:
    with held("ours"), on_host("web-2"), held("a") as hold, waited_for("ours"):
        found = inspection.drain("web-2", dry_run=True)
        assert [hold.token] == [holder.token for holder in found.holders]
        assert ["ours"] == [waiter.lock for waiter in found.waiters]
        assert 1 == len(inspection.waiters())
        hold.extend(60)


def test_drain_of_a_host_that_has_nothing_ends_nothing() -> None:
    with held("a") as hold:
        assert inspection.Parties((), ()) == inspection.drain("web-2")
        hold.check()


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [(17, TypeError, "host must be a string, not 17"), ("", ValueError, "host must not be empty")],
)
def test_a_host_that_is_none_is_refused(asked: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        inspection.drain(asked)


def test_a_server_that_is_down_is_named() -> None:
    for ask in (inspection.parties, inspection.waiters, inspection.contended):
        with pytest.raises(LockBackendError, match="nonexistent"):
            ask(using=DOWN)
    with pytest.raises(LockBackendError, match="nonexistent"):
        inspection.drain("web-1", using=DOWN)


def test_the_async_twins_answer_the_same() -> None:
    async def ask() -> tuple[Any, ...]:
        (waiter,) = await inspection.awaiters()
        (lock,) = await inspection.acontended()
        (blocker,) = await inspection.ablocking(waiter.session)
        assert await inspection.anames() == [lock.name]
        assert (await inspection.aparties()).holders[0].token == blocker.token
        return waiter, lock, blocker, await inspection.adrain(HOST)

    with held("a") as hold, waited_for("a"):
        waiter, lock, blocker, ended = asyncio.run(ask())
    assert ("a", hold.token, waiter.token) == (lock.name, blocker.token, ended.waiters[0].token)
    assert hold.token == ended.holders[0].token
