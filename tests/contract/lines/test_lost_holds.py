"""What was lost, dropped or ended too early does not pass, and leaves its line."""

from __future__ import annotations

import pytest

from redis_locks import Lock, LockLost, inspection
from tests.support import handover, leases, stored, timings
from tests.support.handover import one_behind
from tests.support.world import PATIENCE, Observer, Threads, World, held, keys_of, let_go, until


def test_what_was_lost_does_not_pass_and_the_next_in_line_asks(
    world: World, name: str, server_side: Observer
) -> None:
    hold, waiter = one_behind(world, Lock(name, renew=False))
    stored.drop_holder(server_side.client, keys_of(name).lock)
    leases.mark_lost(hold)
    with pytest.raises(LockLost):
        world.release(hold)
    successor = waiter.result(PATIENCE)
    assert successor.token == server_side.holder(name) != hold.token
    world.release(successor)


def test_a_hold_that_is_dropped_lets_the_next_in_line_ask(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.waiters_ask_again_after(monkeypatch, 0.1)
    hold, waiter = one_behind(world, Lock(name, renew=False))
    with pytest.warns(ResourceWarning, match="dropped") as told:  # noqa: PT031 - to be collected inside
        del hold
        until(lambda: let_go(world) or told)
    server_side.until_waiters(name, 1)
    stored.drop_holder(server_side.client, keys_of(name).lock)  # as at the end of its lease
    successor = waiter.result(PATIENCE)
    world.release(successor)
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize("dropped", [True, False])
def test_a_hold_whose_lease_ended_leaves_its_line(
    world: World, name: str, server_side: Observer, dropped: bool
) -> None:
    hold = held(world, Lock(name, lease=0.02, renew=False))
    if dropped:
        leases.stop_renewal(hold)  # nobody looks
        until(lambda: hold.is_lost)
        assert handover.has_lines()
        del hold
        until(lambda: let_go(world) or not handover.has_lines())
    else:
        until(lambda: not handover.has_lines())
        with pytest.raises(LockLost):
            world.release(hold)
    assert not handover.has_lines()


def test_what_reaches_the_heir_too_late_was_not_lost_by_who_passed_it_on(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, waiter = one_behind(Threads(), Lock(name))

    def lost() -> None:
        stored.drop_holder(server_side.client, keys_of(name).lock)

    handover.come_too_late(monkeypatch, lost)
    hold.release()
    heir = waiter.result(PATIENCE)
    assert hold.token != heir.token == server_side.holder(name)
    assert not leases.is_marked_lost(hold)
    heir.release()


def test_what_threads_pass_on_unaware_of_a_force_release_has_an_older_fencing_token(
    name: str, server_side: Observer
) -> None:
    world = Threads()
    hold, waiter = one_behind(world, Lock(name))
    other = world.start(Lock(name, label="another process", lease=20).acquire)
    server_side.until_waiters(name, 1)
    ended = inspection.force_release(name)
    theirs = other.result(PATIENCE)
    assert theirs is not None
    world.release(hold)
    heir = waiter.result(PATIENCE)
    # What the docs say of LOCAL_BATCH: both believe that they hold, and a resource can tell them apart.
    assert hold.fencing_token < heir.fencing_token < ended.fencing_token <= theirs.fencing_token
    with pytest.raises(LockLost):
        world.release(heir)
    assert theirs.token == server_side.holder(name)
    world.release(theirs)
    assert set() == server_side.left_of(name)
