"""Leases: they end by the holder's own clock, and renewal keeps them from ending."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis

from redis_locks import Hold, Lock, LockLost, Semaphore
from redis_locks.testing.server import EmbeddedServer
from tests.support import calls, leases, stored
from tests.support.timings import YOUNG, renewal_ends_after
from tests.support.world import (
    PATIENCE,
    Observer,
    Threads,
    World,
    held,
    in_line,
    keys_of,
    let_go,
    until,
)


def test_a_lease_that_ended_is_known_without_asking(
    world: World, name: str, own_side: Observer
) -> None:
    # Over before this process would begin to listen whether somebody else ends it.
    hold = held(world, Lock(name, lease=YOUNG / 2, renew=False))
    before = own_side.commands()
    until(lambda: hold.remaining == 0)
    assert hold.is_lost
    with pytest.raises(LockLost):
        hold.check()
    assert before == own_side.commands()


@pytest.mark.verdict
def test_a_hold_never_believes_in_its_lease_longer_than_the_server_does(
    world: World, name: str, server_side: Observer
) -> None:
    for turn in range(30):
        old = held(world, Lock(name, lease=0.01, renew=False))
        if turn % 2:
            try:
                world.extend(old, 0.012)
            except LockLost:  # the machine was busy
                continue
        while server_side.holder(name):
            pass
        # Redis let the lock go at some moment before this line.
        assert old.is_lost


@pytest.mark.verdict
def test_a_hold_handed_over_never_believes_in_its_lease_longer_than_the_server_does(
    world: World, name: str, server_side: Observer
) -> None:
    too_long = []
    counted = turns = 0
    while counted < 15:
        turns += 1
        assert turns < 100, "the waiter never heard of its grant in time"
        first = held(world, Lock(name))
        waiter = in_line(world, Lock(name, lease=0.02, renew=False), server_side)
        world.release(first)
        granted = first.fencing_token
        while fence := server_side.fencing_token(name):
            granted = fence
        gone = time.monotonic()
        hold = waiter.result(PATIENCE)
        # Else the one that went was over before the waiter heard of it, which got another one
        # since.
        if hold.fencing_token == granted:
            counted += 1
            if leases.ends_at(hold) > gone:
                too_long.append(leases.ends_at(hold) - gone)
        until(lambda hold=hold: hold.is_lost)
    assert [] == too_long


def test_renewal_keeps_a_hold_far_beyond_its_lease(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=1.2, renew=True))
    started = time.monotonic()
    until(lambda: time.monotonic() - started > 2.5)
    hold.check()
    assert hold.token == server_side.holder(name)
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_without_renewal_a_hold_ends_with_its_lease(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=0.1, renew=False))
    until(lambda: server_side.holder(name) is None)
    until(lambda: hold.is_lost, within=0.5)


def test_renewal_survives_killed_connections_and_flushed_scripts(
    world: World, name: str, client: redis.Redis
) -> None:
    hold = held(world, Lock(name, lease=2, renew=True))
    for _ in range(2):
        ends = leases.ends_at(hold)
        client.script_flush()
        client.client_kill_filter(_type="pubsub")
        until(lambda ends=ends: leases.ends_at(hold) > ends)
    hold.check()
    world.release(hold)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_renewal_begins_with_the_next_hold_if_its_thread_could_not_be_started(
    name: str,
    private_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    def start(thread: threading.Thread) -> None:
        if thread.name == "redis_locks-renewal":
            raise error("no thread")
        started(thread)

    lock, started = Lock(name, lease=3, using=private_server.url), threading.Thread.start
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(error):
            lock.acquire()
    with lock as hold:
        first = hold.remaining
        until(lambda: hold.remaining < first - 0.5)
        least = hold.remaining
        until(lambda: hold.remaining > least)


def test_renewal_tells_a_holder_that_was_revoked(
    world: World, name: str, server_side: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    hold = held(world, Lock(name, lease=2.0, renew=True))
    stored.drop_holder(server_side.client, keys_of(name).lock)
    until(lambda: hold.is_lost)
    assert 0.0 == hold.remaining
    until(lambda: any("lost" in record.getMessage() for record in caplog.records))
    with pytest.raises(LockLost):
        world.release(hold)


def test_renewal_keeps_the_longer_lease_of_an_extended_hold(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=0.3, renew=True))
    world.extend(hold, 30)
    started = time.monotonic()
    until(lambda: time.monotonic() - started > 0.4)
    assert hold.remaining > 25
    world.release(hold)


def test_a_renewal_that_is_answered_after_an_extend_leaves_the_longer_lease(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(world, Lock(name, lease=20))
    with leases.renewal_answered_late(monkeypatch, hold):
        world.extend(hold, 60)
    assert hold.remaining > 30
    world.release(hold)


def test_a_renewal_that_is_answered_after_a_shorter_extend_counts(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(world, Lock(name, lease=60))
    before = leases.ends_at(hold)
    with leases.renewal_answered_late(monkeypatch, hold):
        world.extend(hold, 1)
    assert leases.ends_at(hold) > before
    world.release(hold)


def test_a_renewal_after_an_extend_says_when_the_lease_ends_even_if_that_is_sooner(
    world: World, name: str, client: redis.Redis
) -> None:
    hold = held(world, Lock(name, lease=20))
    world.extend(hold, 600)
    stored.end_lease_in(client, keys_of(name).lock, 5_000)  # as after a fail-over
    leases.renew(hold)
    assert hold.remaining < 30
    world.release(hold)


def test_a_hold_dropped_without_release_is_not_renewed_and_says_so(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=1, renew=True))
    with pytest.warns(ResourceWarning, match="without release") as told:  # noqa: PT031 - to be collected inside
        del hold
        until(lambda: let_go(world) or told)
    until(lambda: server_side.holder(name) is None, within=5)
    world.release(held(world, Lock(name)))


def test_the_only_hold_is_renewed_though_none_was_added_for_long(
    private_server: EmbeddedServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewer goes away when it has nothing to renew, and not when nothing is due yet."""
    renewal_ends_after(monkeypatch, 0.25)
    with Lock(name, using=private_server.url, lease=3) as hold:
        for _ in range(2):  # as the process begins to listen, and when it is due
            leases.until_renewed(hold)


def test_many_holds_are_renewed_together(world: World, name: str, server_side: Observer) -> None:
    holds = [held(world, Lock(f"{name}:{i}", lease=0.8, renew=True)) for i in range(30)]
    started = time.monotonic()
    until(lambda: time.monotonic() - started > 1.2)
    assert [False] * 30 == [hold.is_lost for hold in holds]
    for hold in holds:
        world.release(hold)
    assert set() == set().union(*(server_side.left_of(f"{name}:{i}") for i in range(30)))


def test_a_renewal_that_crosses_the_release_is_no_loss(
    world: World, caplog: pytest.LogCaptureFixture, hold: Hold
) -> None:
    world.release(hold)
    leases.hear_of_its_end(hold)
    assert not hold.is_lost
    assert [] == [record for record in caplog.records if "lost" in record.getMessage()]


def test_an_extend_whose_answer_comes_after_the_lease_ended_is_told_as_a_loss(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(plain: calls.Handler, *args: Any) -> Any:
        left = await plain(*args)
        until(lambda: hold.is_lost)
        return left

    calls.intercept(monkeypatch, "extend", slow)
    hold = held(world, Lock(name, lease=0.2, renew=False))
    with pytest.raises(LockLost):
        world.extend(hold, 5)


@pytest.mark.parametrize("kind", ["shared", "permit"])
def test_a_lease_that_has_ended_stands_in_nobody_s_way(name: str, kind: str) -> None:
    if kind == "shared":
        short = Lock(name, mode="shared", lease=0.3, renew=False)
        long, next_one = Lock(name, mode="shared"), Lock(name, wait=0)
    else:
        short = Semaphore(name, 2, lease=0.3, renew=False)
        long = next_one = Semaphore(name, 2, wait=0)
    world = Threads()  # in one thread, the second hold would be nested in the first
    ended = held(world, short)
    beside = held(world, long)
    time.sleep(max(0.0, ended.remaining) + 0.05)
    if kind == "shared":
        beside.release()
    taken = held(world, next_one)
    taken.release()
    if kind == "permit":
        beside.release()
