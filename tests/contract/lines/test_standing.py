"""Who stands in line, who asks the server instead, and that a wait in line ends without a trace."""

from __future__ import annotations

import os

import pytest
from django.conf import settings
from django.test import override_settings

from redis_locks import Hold, Lock
from tests.support import handover, timings
from tests.support.handover import in_line, lined_up, one_behind
from tests.support.timings import YOUNG
from tests.support.world import PATIENCE, Observer, Threads, World, held


def test_who_has_stood_in_line_for_long_joins_the_queue_and_is_not_overtaken(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock(name)
    hold = held(world, lock)
    timings.lines_last(monkeypatch, YOUNG)
    elder = world.start(world.acquire, lock)
    server_side.until_waiters(name, 1)
    timings.lines_last(monkeypatch, PATIENCE)
    younger = world.start(world.acquire, lock)
    server_side.until_waiters(name, 2)  # the line is closed: it led a new one
    world.release(hold)
    second = elder.result(PATIENCE)
    assert not younger.done()
    world.release(second)
    world.release(younger.result(PATIENCE))
    assert 3 == len({hold.token, second.token, younger.result().token})
    assert set() == server_side.left_of(name)


def test_nobody_waits_in_line_behind_a_hold_that_lasts(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.lines_last(monkeypatch, 0.0)
    hold = held(world, Lock(name))
    timings.lines_last(monkeypatch, PATIENCE)
    waiter = world.start(world.acquire, Lock(name))
    server_side.until_waiters(name, 1)
    world.release(hold)
    world.release(waiter.result(PATIENCE))


def test_a_wait_that_ends_in_line_leaves_nothing_behind(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    hold = held(world, lock)
    assert world.acquire(lock, wait=0.03) is None
    assert [] == in_line(lock)
    assert world.acquire(lock, wait=0) is None
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_when_the_one_that_asks_gives_up_the_next_in_line_asks(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=20))  # with another lease: not in the same line
    lock = Lock(name)
    asking = world.start(world.acquire, lock, wait=0.3)
    server_side.until_waiters(name, 1)
    (behind,) = lined_up(world, lock, 1)
    assert asking.result(PATIENCE) is None
    server_side.until_waiters(name, 1)
    world.release(hold)
    world.release(behind.result(PATIENCE))
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize("verb", ["detach", "downgrade"])
def test_who_is_in_line_asks_when_the_hold_goes_another_way(
    world: World, name: str, server_side: Observer, verb: str
) -> None:
    hold, waiter = one_behind(world, Lock(name))
    text = world.do(hold, verb)
    server_side.until_waiters(name, 1)
    if verb == "detach":
        Hold.adopt(text).release()
    else:
        world.release(hold)
    world.release(waiter.result(PATIENCE))
    assert set() == server_side.left_of(name)


def test_local_batch_0_asks_the_server_for_each_hold(
    world: World, name: str, server_side: Observer
) -> None:
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "LOCAL_BATCH": 0}):
        hold = held(world, Lock(name))
        waiter = world.start(world.acquire, Lock(name))
        server_side.until_waiters(name, 1)
        assert not handover.has_lines()
        world.release(hold)
        successor = waiter.result(PATIENCE)
        assert hold.token != successor.token
        world.release(successor)


def test_holds_of_other_kinds_neither_pass_nor_wait_in_line(
    world: World, name: str, server_side: Observer
) -> None:
    for options in ({"mode": "shared"}, {"read": [("GET", "x")]}, {"crash_release": True}):
        hold = held(world, Lock(name, **options))  # type: ignore[arg-type]
        assert not handover.has_lines()
        world.release(hold)
    hold = held(world, Lock(name, f"{name}:2"))
    assert not handover.has_lines()
    world.release(hold)


def test_a_forked_child_has_none_of_its_parents_lines(name: str, server_side: Observer) -> None:
    world, lock = Threads(), Lock(name, wait=PATIENCE)
    hold, waiter = one_behind(world, lock)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert not handover.has_lines()
            with lock:
                status = 0
        finally:
            os._exit(status)
    server_side.until_waiters(name, 1)
    world.release(hold)
    world.release(waiter.result(PATIENCE))
    assert (child, 0) == os.waitpid(child, 0)
    assert set() == server_side.left_of(name)
