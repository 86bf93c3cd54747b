"""A hold that passed is like any other: written down, told, lost, detached, shared, entered again."""

from __future__ import annotations

import os
from typing import Any

import pytest

from redis_locks import Hold, Lock, LockLost, inspection
from tests.support import handover, stored, timings
from tests.support.handover import in_line, lined_up, one_behind, passed_on, write_down
from tests.support.timings import YOUNG
from tests.support.world import PATIENCE, Observer, Threads, World, held, keys_of, until


@pytest.mark.parametrize("renew", [True, False])
def test_a_hold_that_passed_and_lasts_is_written_down_as_what_it_is(
    world: World,
    name: str,
    server_side: Observer,
    monkeypatch: pytest.MonkeyPatch,
    renew: bool,
) -> None:
    timings.leases_are_young_for(monkeypatch, YOUNG)
    lock, second = Lock(name, label="first", renew=renew), Lock(name, label="second", renew=renew)
    first = held(world, lock)
    (waiter,) = lined_up(world, second, 1)
    world.release(first)
    hold = waiter.result(PATIENCE)

    def holder() -> inspection.HolderInfo:
        info = inspection.lock(name)
        assert info is not None
        return info.holders[0]

    until(lambda: "second" == holder().label)
    until(lambda: hold.token == holder().token)
    assert first.token != hold.token
    assert hold.fencing_token == holder().fencing_token == first.fencing_token + 1
    world.extend(hold, 20)
    assert hold.remaining > 15
    world.release(hold)
    assert set() == server_side.left_of(name)
    assert not hold.is_lost


def test_a_hold_that_passed_is_written_down_as_it_is_extended(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, Lock(name))
    predecessors = hold.token
    world.extend(hold, 90)
    assert not handover.is_stated_late(hold)
    assert predecessors != hold.token == server_side.holder(name)
    world.release(hold)


def test_a_release_that_crosses_the_writing_down_ends_the_hold(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, Lock(name, renew=False))
    write_down(hold, server_side)  # and the reply is still on its way
    assert hold.token != server_side.holder(name)
    world.release(hold)
    assert set() == server_side.left_of(name)
    assert not hold.is_lost


def test_whoever_holds_what_passed_learns_of_a_force_release(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.holders_listen_after(monkeypatch, YOUNG)  # it listens soon
    hold = passed_on(world, Lock(name, lease=60))
    released = inspection.force_release(name)
    assert 1 == released.ended
    assert hold.fencing_token < released.fencing_token
    until(lambda: hold.is_lost, within=15)
    with pytest.raises(LockLost):
        world.release(hold)
    assert set() == server_side.left_of(name)


def test_a_detached_hold_that_had_passed_goes_on_elsewhere(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, Lock(name))
    text = world.do(hold, "detach")
    adopted = Hold.adopt(text)
    assert hold.fencing_token == adopted.fencing_token
    assert adopted.token == server_side.holder(name)
    adopted.release()
    assert set() == server_side.left_of(name)


def test_a_downgraded_hold_that_had_passed_is_shared(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, Lock(name))
    world.do(hold, "downgrade")
    beside = held(world, Lock(name, mode="shared"))
    assert beside.fencing_token > hold.fencing_token
    world.release(beside)
    world.release(hold)
    assert set() == server_side.left_of(name)


def test_a_hold_that_passed_is_reentrant_for_its_new_holder_only(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    first = held(world, lock)
    seen: list[int] = []

    def nested(hold: Hold) -> Any:
        seen.append(hold.fencing_token)
        if world.kind == "blocking":
            with lock as inner:
                seen.append(inner.fencing_token)
            return None
        return anested()

    async def anested() -> None:
        async with lock as inner:
            seen.append(inner.fencing_token)

    waiter = world.start(world.block, lock, nested)
    until(lambda: len(in_line(lock)) == 1)
    world.release(first)
    waiter.result(PATIENCE)
    assert [first.fencing_token + 1] * 2 == seen
    assert set() == server_side.left_of(name)


def test_each_hold_that_passes_is_told_as_any_other(world: World, name: str) -> None:
    from redis_locks.signals import LOCK_SIGNALS

    told: list[Any] = []

    def receive(event: Any, **_: Any) -> None:
        told.append(event)

    for signal in LOCK_SIGNALS.values():
        signal.connect(receive)
    try:
        first, waiter = one_behind(world, Lock(name))
        world.release(first)
        world.release(waiter.result(PATIENCE))
    finally:
        for signal in LOCK_SIGNALS.values():
            signal.disconnect(receive)
    kinds = [event.kind for event in told]
    assert ["acquired", "acquired", "contended", "released", "released"] == sorted(kinds)
    (contended,) = [event for event in told if event.kind == "contended"]
    assert str(os.getpid()) in contended.holder
    acquired = [event for event in told if event.kind == "acquired"]
    assert [0.0, True] == [acquired[0].waited, acquired[1].waited > 0]
    assert acquired[0].since < acquired[1].since


def test_a_hold_that_passed_and_is_not_renewed_is_not_extended_before_commit(
    name: str, server_side: Observer
) -> None:
    hold = passed_on(Threads(), Lock(name, renew=False, lease=10))
    stored.set_lease_left(server_side.client, keys_of(name).lock, 5000)
    handover.verify(hold)
    assert hold.token == server_side.holder(name)
    assert stored.lease_left_ms(server_side.client, keys_of(name).lock) <= 5000
    hold.release()


def test_a_hold_that_passed_is_written_down_before_a_set_across_partitions_raises_its_fencing_token(
    name: str, server_side: Observer
) -> None:
    world = Threads()
    hold = passed_on(world, Lock(name))
    assert handover.is_stated_late(hold)
    assert handover.state(hold)
    assert not handover.is_stated_late(hold)
    assert hold.token == server_side.holder(name)
    world.release(hold)
