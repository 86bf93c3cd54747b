"""Sets of locks of several partitions: acquired one after another, held as one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import override_settings

from redis_locks import (
    Hold,
    Lock,
    LockBackendError,
    LockError,
    LockLost,
    LockNotAvailable,
    inspection,
)
from redis_locks.testing.server import EmbeddedServer
from tests.support import calls, leases, stored
from tests.support.interrupts import interrupt, renewed, until_background_is_done
from tests.support.keys import lock_keys, partition_of
from tests.support.world import (
    PATIENCE,
    Tasks,
    World,
    granted,
    held,
    let_go,
    served,
    until,
)

PARTITIONS = 4
Names = tuple[str, str, str]


@pytest.fixture(autouse=True)
def own_partitions(name: str) -> Iterator[None]:
    with override_settings(REDIS_LOCKS={"PREFIX": name, "PARTITIONS": PARTITIONS}):
        yield


@pytest.fixture
def names(own_partitions: None) -> Iterator[Names]:
    """A lock of each of the first three partitions; none is in use when the test has ended."""
    found = {partition_of(f"lock:{i}", PARTITIONS): f"lock:{i}" for i in range(50)}
    yield found[0], found[1], found[2]
    assert [] == in_use()


def until_waiters(name: str) -> None:
    until(lambda: (found := inspection.lock(name)) is not None and found.waiting == 1)


def in_use() -> list[str]:
    return [lock.name for lock in inspection.locks()]


def modes_in_redis() -> set[str]:
    return {holder.mode for lock in inspection.locks() for holder in lock.holders}


def lease_ends(client: redis.Redis, prefix: str, name: str) -> Any:
    partition = partition_of(name, PARTITIONS)
    return stored.lease_ends_ms(client, lock_keys(prefix, partition, name).lock)


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_the_set_is_held_and_released_as_one(world: World, names: Names, mode: Any) -> None:
    def body(hold: Hold) -> None:
        assert sorted(names) == in_use()
        held_now = [holder for lock in inspection.locks(names=names) for holder in lock.holders]
        assert [part.token for part in hold.parts] == [holder.token for holder in held_now]
        assert [mode] * 3 == [holder.mode for holder in held_now]
        assert {hold.fencing_token} == {holder.fencing_token for holder in held_now}
        assert ", ".join(reversed(names)) == hold.name

    world.block(Lock(*reversed(names), mode=mode), body)


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_nothing_is_held_when_one_of_them_is_not_free(
    world: World, names: Names, taken: int
) -> None:
    other = held(world, Lock(names[taken]))
    assert world.acquire(Lock(*names), wait=0) is None
    with pytest.raises(LockNotAvailable, match="is held by"):
        world.block(Lock(*names).hold(wait=0), lambda _: None)
    assert [names[taken]] == in_use()
    world.release(other)


def test_all_its_waits_share_one_deadline(
    world: World, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = held(world, Lock(names[0]))
    waits = calls.record_waits(monkeypatch)
    waiter = world.start(world.acquire, Lock(*names), wait=PATIENCE)
    until_waiters(names[0])
    time.sleep(0.05)  # this much less is left for the others
    world.release(first)
    served(world, waiter)
    assert waits[0] <= PATIENCE
    assert waits[2] < waits[1] < waits[0] - 0.05


def test_it_is_granted_when_the_last_of_them_is_free(world: World, names: Names) -> None:
    other = held(world, Lock(names[2]))
    waiter = world.start(world.acquire, Lock(*names))
    until_waiters(names[2])
    world.release(other)
    hold = granted(waiter.result(PATIENCE))
    assert sorted(names) == in_use()
    world.release(hold)


def test_sets_in_opposite_orders_do_not_deadlock(world: World, names: Names) -> None:
    a, b, c = names
    sets = [Lock(a, b), Lock(b, c), Lock(c, a), Lock(c, b, a), Lock(b)]
    workers = [
        world.start(world.block, lock.hold(wait=PATIENCE), lambda hold: hold.check())
        for lock in sets * 4
    ]
    for worker in workers:
        worker.result(PATIENCE)


def test_a_cancelled_wait_gives_back_what_was_acquired(tasks: Tasks, names: Names) -> None:
    other = held(tasks, Lock(names[1]))
    task: Any = None

    async def wait() -> None:
        nonlocal task
        task = asyncio.current_task()
        await Lock(*names).aacquire()

    waiter = tasks.submit(wait())
    until_waiters(names[1])
    assert sorted(names[:2]) == in_use()
    tasks.loop.call_soon_threadsafe(task.cancel)
    with pytest.raises(BaseException) as cancelled:  # noqa: PT011 - the executor's or asyncio's
        waiter.result(PATIENCE)
    assert "Cancelled" in type(cancelled.value).__name__
    assert [names[1]] == in_use()
    tasks.release(other)


def interrupt_the_second(monkeypatch: pytest.MonkeyPatch, script: str, when: str) -> None:
    """Raise KeyboardInterrupt before or after the second call of `script`."""
    asked: list[object] = []

    async def interrupted(plain: calls.Handler, *args: Any, **options: Any) -> Any:
        asked.append(args)
        if len(asked) < 2 or when == "after":
            reply = await plain(*args, **options)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return reply

    calls.intercept(monkeypatch, script, interrupted)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("script", ["acquire", "raise_fence"])
def test_an_interrupt_gives_back_what_was_acquired(
    names: Names, monkeypatch: pytest.MonkeyPatch, script: str, when: str
) -> None:
    interrupt_the_second(monkeypatch, script, when)
    with pytest.raises(KeyboardInterrupt):
        Lock(*names).acquire()


def test_what_is_held_is_renewed_while_the_rest_is_waited_for(
    world: World, name: str, names: Names, client: redis.Redis
) -> None:
    other = held(world, Lock(names[1]))
    waiter = world.start(world.acquire, Lock(*names, lease=2, renew=False))
    until_waiters(names[1])
    ended = lease_ends(client, name, names[0]) + 300
    until(lambda: lease_ends(client, name, names[0]) > ended)
    world.release(other)
    hold = granted(waiter.result(PATIENCE))
    assert not hold.is_lost
    # Not renewed from here on: each has a whole lease, and it ends.
    until(lambda: hold.is_lost)
    with pytest.raises(LockLost):
        world.release(hold)


def test_it_is_lost_if_one_of_its_locks_is(world: World, names: Names) -> None:
    hold = held(world, Lock(*names, lease=3))
    until(lambda: hold.remaining < 2.5)
    until(lambda: hold.remaining > 2.6)  # renewed, and so are all of them
    assert 1 == inspection.force_release(names[1]).ended
    until(lambda: hold.is_lost)
    assert 0 == hold.remaining
    with pytest.raises(LockLost):
        hold.check()
    with pytest.raises(LockLost):
        world.release(hold)


def test_it_starts_anew_when_one_is_lost_while_the_rest_is_waited_for(
    world: World, names: Names
) -> None:
    other = held(world, Lock(names[1]))
    waiter = world.start(world.acquire, Lock(*names, lease=30))
    until_waiters(names[1])
    assert 1 == inspection.force_release(names[0]).ended
    thief = held(world, Lock(names[0]))
    world.release(other)
    until_waiters(names[0])
    assert [names[0]] == in_use()
    world.release(thief)
    hold = granted(waiter.result(PATIENCE))
    assert sorted(names) == in_use()
    world.release(hold)


def test_it_is_lost_at_once_when_no_time_is_left_to_start_anew(
    world: World, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def after_a_force_release(plain: calls.Handler, *args: Any) -> Any:
        inspection.force_release(names[0])
        return await plain(*args)

    calls.intercept(monkeypatch, "raise_fence", after_a_force_release)
    with pytest.raises(LockLost, match="lost in part"):
        world.acquire(Lock(*names), wait=0)


def test_extend_is_of_all(world: World, name: str, names: Names, client: redis.Redis) -> None:
    hold = held(world, Lock(*names, lease=5))
    world.extend(hold, 60)
    assert hold.remaining > 50
    now = time.time() * 1000
    assert all(lease_ends(client, name, each) > now + 50_000 for each in names)
    world.release(hold)
    with pytest.raises(Exception, match="released already"):
        world.extend(hold, 60)
    world.release(hold)  # does nothing


def test_its_fencing_token_is_above_all_earlier_and_below_all_later_ones(
    world: World, name: str, names: Names, client: redis.Redis
) -> None:
    ahead = 9_000_000_000_000_000  # the clock of this partition's node is wrong
    partition = partition_of(names[1], PARTITIONS)
    stored.set_fence(client, lock_keys(name, partition, names[1]).lock, ahead)
    hold = held(world, Lock(*names))
    assert hold.fencing_token > ahead
    world.release(hold)
    for each in names:
        later = held(world, Lock(each))
        assert later.fencing_token > hold.fencing_token
        world.release(later)


def test_it_is_upgraded_and_downgraded_as_one(world: World, names: Names) -> None:
    hold = held(world, Lock(*names, mode="shared"))
    before = hold.fencing_token
    world.do(hold, "upgrade", wait=0)
    assert "exclusive" == hold.mode
    assert hold.fencing_token > before
    for lock in inspection.locks():
        assert ["exclusive"] == [holder.mode for holder in lock.holders]
        assert [hold.fencing_token] == [holder.fencing_token for holder in lock.holders]
    world.do(hold, "upgrade", wait=0)  # does nothing
    world.do(hold, "downgrade")
    assert "shared" == hold.mode
    other = held(world, Lock(*names, mode="shared", wait=0))
    world.release(other)
    world.release(hold)


@pytest.mark.usefixtures("interrupted_downgrade")
def test_interrupted_on_its_way_a_downgraded_hold_is_shared_as_a_whole(
    world: World, names: Names
) -> None:
    hold = held(world, Lock(*names))
    with pytest.raises(InterruptedError):
        world.do(hold, "downgrade")
    assert ["shared"] * 3 == [each.mode for lock in inspection.locks() for each in lock.holders]
    assert "shared" == hold.mode
    world.release(hold)


def test_an_upgrade_that_fails_leaves_all_shared(world: World, names: Names) -> None:
    hold = held(world, Lock(*names, mode="shared"))
    other = held(world, Lock(names[2], mode="shared"))
    with pytest.raises(LockNotAvailable):
        world.do(hold, "upgrade", wait=0)
    assert "shared" == hold.mode
    assert {"shared"} == modes_in_redis()
    hold.check()
    world.release(other)
    world.do(hold, "upgrade", wait=0)
    world.release(hold)


def test_an_upgrade_whose_last_step_fails_leaves_all_shared(
    world: World, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(world, Lock(*names, mode="shared"))

    async def unreachable(*args: Any) -> Any:
        msg = "no answer"
        raise LockBackendError(msg)

    with monkeypatch.context() as patched:
        calls.intercept(patched, "raise_fence", unreachable)
        with pytest.raises(LockBackendError, match="no answer"):
            world.do(hold, "upgrade", wait=0)
    assert {"shared"} == modes_in_redis()
    world.do(hold, "upgrade", wait=0)
    assert "exclusive" == hold.mode
    world.release(hold)


def test_a_nested_block_upgrades_and_the_outer_one_downgrades(names: Names) -> None:
    with Lock(*names, mode="shared") as outer:
        with Lock(*names, wait=0) as inner:
            with pytest.raises(LockError, match="nested"):
                outer.downgrade()
            assert {"exclusive"} == {outer.mode, inner.mode, *modes_in_redis()}
        outer.downgrade()
        assert {"shared"} == {outer.mode, *modes_in_redis()}


def test_a_set_is_no_more_exclusive_than_each_of_its_locks(names: Names) -> None:
    with Lock(*names, mode="shared") as outer:
        with Lock(names[0], wait=0):
            assert "shared" == outer.mode
        outer.downgrade()
        assert {"shared"} == modes_in_redis()
        with Lock(names[0], wait=0):
            outer.upgrade(wait=0)
        assert {"exclusive"} == {outer.mode, *modes_in_redis()}


@pytest.mark.parametrize("by", ["acquire", "upgrade"])
def test_a_nested_upgrade_that_is_refused_leaves_all_shared(
    world: World, names: Names, by: str
) -> None:
    other = held(world, Lock(names[2], mode="shared"))
    with Lock(*names, mode="shared") as outer:
        fencing_token = outer.fencing_token
        if by == "acquire":
            assert Lock(*names).acquire(wait=0) is None
        else:
            with Lock(*names, mode="shared") as inner, pytest.raises(LockNotAvailable):
                inner.upgrade(wait=0)
        assert ("shared", fencing_token) == (outer.mode, outer.fencing_token)
        assert {"shared"} == modes_in_redis()
        outer.check()
    world.release(other)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("script", ["acquire", "raise_fence"])
def test_an_interrupt_in_a_nested_upgrade_leaves_all_shared(
    names: Names, monkeypatch: pytest.MonkeyPatch, script: str, when: str
) -> None:
    with Lock(*names, mode="shared") as outer:
        interrupt_the_second(monkeypatch, script, when)
        with pytest.raises(KeyboardInterrupt):
            Lock(*names).acquire(wait=0)
        assert {"shared"} == {outer.mode, *modes_in_redis()}
        outer.check()


def test_what_needs_one_step_says_so(world: World, names: Names, client: redis.Redis) -> None:
    hold = held(world, Lock(*names))
    with pytest.raises(ValueError, match="in several partitions, and one step reaches only one"):
        world.do(hold, "commit", client.pipeline())
    world.release(hold)
    with pytest.raises(ValueError, match="in several partitions and read= reaches only one"):
        world.acquire(Lock(*names, read=[("GET", "x")]))


def test_a_hold_that_is_dropped_warns_once(names: Names) -> None:
    hold = granted(Lock(*names, lease=1).acquire())
    with pytest.warns(ResourceWarning, match="dropped without release") as warned:  # noqa: PT031 - to be collected inside
        del hold
        until(lambda: let_go() or warned)
    assert 1 == len(warned)
    until(lambda: not in_use())  # nothing renews it


def test_an_interrupt_as_its_block_ends_leaves_none_of_its_locks(names: Names) -> None:
    def run() -> None:
        with hold:
            pass

    where, at = "", 0
    while "_leave" not in where:
        hold = granted(Lock(*names).acquire())
        at += 1
        interrupted = interrupt(run, at)
        assert interrupted is not None
        where = interrupted.where
        until_background_is_done()
        left = [renewed(name) for name in names], in_use()
        hold.release()
    assert ([0, 0, 0], []) == left


@pytest.mark.parametrize("renew", [True, False])
def test_who_holds_the_set_takes_some_or_all_of_it_again(names: Names, *, renew: bool) -> None:
    with Lock(*names, lease=60) as outer:
        with Lock(*names, wait=0, renew=renew) as all_again, Lock(names[1], wait=0) as one:
            assert outer.fencing_token == all_again.fencing_token == one.fencing_token
        assert sorted(names) == in_use()
        assert all(leases.is_renewed(part) for part in outer.parts)  # type: ignore[attr-defined]
        outer.extend(90)
        assert outer.remaining > 80


@pytest.mark.parametrize("count", [1, 3])
def test_in_a_block_that_runs_without_some_of_its_locks_it_says_so(
    names: Names, private_server: EmbeddedServer, count: int
) -> None:
    configured = {
        "CONNECTION": private_server.url,
        "PARTITIONS": PARTITIONS,
        "ON_UNAVAILABLE": "proceed",
    }
    private_server.kill()
    with override_settings(REDIS_LOCKS=configured), Lock(*names[-count:]) as outer:
        private_server.restart()
        with Lock(*names) as inner:
            assert sorted(names[:-count]) == in_use()
            assert (True, 0) == (inner.is_unguarded, inner.fencing_token)
            inner.extend(5)
        outer.check()
        assert [] == in_use()


def test_a_refused_set_closes_nothing_for_a_while_as_nobody_worked(
    world: World, names: Names
) -> None:
    other = held(world, Lock(names[2]))
    refused = world.start(world.block, Lock(*names, at_least=60, wait=0), lambda hold: hold.check())
    with pytest.raises(LockNotAvailable):
        refused.result(PATIENCE)
    assert [names[2]] == in_use()
    world.release(other)
    world.block(Lock(*names, at_least=60), lambda hold: hold.check())
    assert sorted(names) == in_use()
    for each in names:
        inspection.force_release(each)
