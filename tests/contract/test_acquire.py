"""Acquire: who gets the lock, in which order, and what it costs."""

from __future__ import annotations

import copy
import gc
import pickle
import time
import weakref
from typing import Any

import pytest

from redis_locks import Hold, Lock, LockNotAvailable, LockTimeout
from tests.support import stored, timings
from tests.support.connections import backend_for
from tests.support.world import PATIENCE, Observer, World, held, in_line, keys_of, queue, served


def test_a_free_lock_is_acquired_in_one_round_trip_and_released_in_another(
    world: World, name: str, own_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine: nobody begins to listen whether somebody else ends the hold.
    timings.holders_listen_after(monkeypatch, 60.0)
    lock = Lock(name, renew=False)
    world.release(held(world, lock))  # opens the connection and loads the scripts
    before = own_side.commands()
    hold = held(world, lock)
    after_acquire = own_side.commands()
    world.release(hold)
    assert (1, 2) == (after_acquire - before, own_side.commands() - before)


def test_a_contended_cycle_costs_at_most_three_round_trips(
    world: World, name: str, own_side: Observer
) -> None:
    lock = Lock(name, renew=False)
    first = held(world, lock)
    waiting = [world.start(world.acquire, lock) for _ in range(4)]
    own_side.until_waiters(name, 4)
    world.release(first)
    for _future in list(waiting):  # once round, so that every waiter has a connection
        world.release(_next_granted(waiting))
    before = own_side.commands()
    first = held(world, lock)
    waiting = [world.start(world.acquire, lock) for _ in range(4)]
    own_side.until_waiters(name, 4)
    world.release(first)
    for _ in range(4):
        world.release(_next_granted(waiting))
    assert own_side.commands() - before <= 5 * 3


def _next_granted(waiting: list) -> Hold:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for future in waiting:
            if future.done():
                waiting.remove(future)
                return future.result()
        time.sleep(0.001)
    raise AssertionError("no waiter was granted the lock")


def test_waiters_are_served_in_the_order_in_which_they_came(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    current = held(world, lock)
    waiting = queue(world, lock, server_side, 6)
    for position, future in enumerate(waiting):
        assert [False] * (6 - position) == [later.done() for later in waiting[position:]]
        world.release(current)
        current = future.result(PATIENCE)
        assert current.token == server_side.holder(name)
    world.release(current)
    assert set() == server_side.left_of(name)


def test_a_newcomer_does_not_overtake_the_queue(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    first = held(world, lock)
    waiter = in_line(world, lock, server_side)
    world.release(first)
    newcomer = world.acquire(lock, wait=0)
    second = waiter.result(PATIENCE)
    assert newcomer is None
    assert second.token == server_side.holder(name)
    world.release(second)


def test_a_newcomer_at_an_expired_lock_hands_it_to_the_first_waiter(
    world: World, name: str, server_side: Observer
) -> None:
    crashed = held(world, Lock(name, lease=0.3, renew=False))
    waiter = in_line(world, Lock(name), server_side)
    newcomers = []
    while not waiter.done():
        newcomers.append(world.acquire(Lock(name), wait=0))
    assert {None} == set(newcomers)
    assert crashed.is_lost
    served(world, waiter)


def test_wait_zero_answers_at_once_and_joins_no_queue(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    started = time.monotonic()
    assert world.acquire(Lock(name, wait=PATIENCE), wait=0) is None
    with pytest.raises(LockNotAvailable) as caught:
        world.block(Lock(name, wait=0), lambda _: None)
    assert time.monotonic() - started < PATIENCE / 2
    assert not isinstance(caught.value, LockTimeout)
    assert 0 == server_side.waiters(name)
    world.release(hold)


def test_whoever_gives_up_learns_who_holds_and_leaves_nothing_behind(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, label="the nightly report", lease=30))
    started = time.monotonic()
    with pytest.raises(LockTimeout) as caught:
        world.block(Lock(name, wait=0.2), lambda _: None)
    assert 0.2 <= time.monotonic() - started < PATIENCE / 2
    assert name == caught.value.name
    assert "the nightly report" in (caught.value.holder or "")
    assert 25 < (caught.value.retry_after or 0) <= 30
    assert "55P03" == caught.value.sqlstate
    assert 0 == server_side.waiters(name)
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_acquire_returns_none_after_its_wait(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    assert world.acquire(Lock(name), wait=0.05) is None
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_waiting_for_ever_outlasts_the_default_wait_of_the_lock(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    waiter = in_line(world, Lock(name, wait=0.01), server_side, wait=None)
    (claim,) = stored.claims_of_waiters(server_side.client, keys_of(name).lock)
    waits = claim.split()[5]
    assert b"0" == waits
    world.release(hold)
    served(world, waiter)


def test_the_lock_passes_to_nobody_who_has_given_up(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    assert world.acquire(Lock(name), wait=0.02) is None
    patient = in_line(world, Lock(name), server_side)
    world.release(hold)
    served(world, patient)
    assert set() == server_side.left_of(name)


def test_one_lock_object_serves_many_at_once(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name, wait=PATIENCE)
    inside: list[str] = []
    most: list[int] = []

    def body(hold: Hold) -> None:
        inside.append(hold.token)
        most.append(len(inside))
        inside.remove(hold.token)

    workers = [world.start(world.block, lock, body) for _ in range(40)]
    for worker in workers:
        worker.result(PATIENCE)
    assert [1] * 40 == most
    assert set() == server_side.left_of(name)


def test_one_lock_object_keeps_nested_blocks_of_its_users_apart(world: World, name: str) -> None:
    outer = Lock(name)
    tokens = []
    world.block(outer, lambda one: tokens.append(one.token))
    world.block(outer, lambda two: tokens.append(two.token))
    assert 2 == len(set(tokens))


def test_a_lock_that_was_used_is_copied_pickled_and_used_with_other_settings_as_a_new_one(
    world: World, name: str, settings: Any
) -> None:
    lock = Lock(name, wait=PATIENCE)
    world.release(held(world, lock))
    for again in (copy.deepcopy(lock), pickle.loads(pickle.dumps(lock))):  # noqa: S301 - our own
        world.release(held(world, again))
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "PREFIX": "elsewhere", "PARTITIONS": 7}
    hold = held(world, lock)
    with pytest.raises(LockNotAvailable), Lock(name, wait=0):
        pass  # so it is the same lock as a new one
    world.release(hold)


def test_a_lock_keeps_nothing_alive_that_former_settings_were_for(name: str, settings: Any) -> None:
    lock, before = Lock(name), []
    for prefix in ("here", "there"):
        settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "PREFIX": prefix}
        with lock:
            before.append(weakref.ref(backend_for(None)))
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "PREFIX": "elsewhere"}
    gc.collect()
    assert [None, None] == [backend() for backend in before]
