"""Threads, or tasks, of one process hand a lock over among themselves."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from redis_locks import Hold, Lock, LockLost, acquiring, guard, inspection, leases, lines, store
from redis_locks.leases import YOUNG
from redis_locks.lines import MOST_PASSED, Line
from tests.contract.world import PATIENCE, Observer, Tasks, Threads, World, held, keys_of, until


@pytest.fixture(autouse=True)
def in_batches() -> Iterator[None]:
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "LOCAL_BATCH": 16}):
        yield


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough to pass a hold on, however busy the machine is."""
    for module in (lines, leases):
        monkeypatch.setattr(module, "YOUNG", PATIENCE)


@pytest.fixture(autouse=True)
def no_lines_left() -> Iterator[None]:
    lines._lines.clear()
    yield
    assert {} == lines._lines


def in_line(name: str) -> list[Any]:
    """Those that stand in this process's lines for a lock."""
    return [
        place
        for line in list(lines._lines.values())
        for place in list(line._places)
        if place.request.names == (name,)
    ]


def lined_up(world: World, lock: Lock, name: str, count: int) -> list[Future[Any]]:
    """Have so many stand in line behind whoever holds, one after the other."""
    waiting = []
    for place in range(1, count + 1):
        waiting.append(world.start(world.acquire, lock))
        until(lambda place=place: len(in_line(name)) == place)  # type: ignore[misc]
    return waiting


def test_a_hold_passes_to_the_next_in_line_without_asking_the_server(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    first = held(world, lock)
    waiting = lined_up(world, lock, name, 3)
    token = server_side.holder(name)
    before = server_side.commands()
    fences, current = [first.fencing_token], first
    for each in waiting:
        world.release(current)
        current = each.result(PATIENCE)
        assert current.remaining > 9
        assert token == current.token == server_side.holder(name)
        fences.append(current.fencing_token)
    assert 0 == server_side.commands() - before
    assert list(range(fences[0], fences[0] + 4)) == fences
    world.release(current)
    assert set() == server_side.left_of(name)
    assert held_again(world, lock) > fences[-1]


def held_again(world: World, lock: Lock) -> int:
    """The fencing token of the next hold."""
    hold = held(world, lock)
    world.release(hold)
    return hold.fencing_token


def test_after_a_batch_the_lock_is_really_released_and_the_next_in_line_asks(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    current = held(world, lock)
    token = current.token
    waiting = lined_up(world, lock, name, MOST_PASSED + 1)
    other = Threads().start(Lock(name, label="another process", lease=20).acquire)
    server_side.until_waiters(name, 1)
    for each in waiting[:-1]:
        world.release(current)
        current = each.result(PATIENCE)
        assert token == current.token
    world.release(current)
    theirs = other.result(PATIENCE)
    assert theirs.fencing_token > current.fencing_token
    server_side.until_waiters(name, 1)
    theirs.release()
    last = waiting[-1].result(PATIENCE)
    assert token != last.token == server_side.holder(name)
    world.release(last)
    assert set() == server_side.left_of(name)


def test_no_fencing_token_comes_twice_when_a_process_dies_that_had_passed_its_hold_on(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name, lease=10)
    # As if the server's clock had gone back: tokens do not grow by it.
    server_side.client.set(keys_of(name).fence, int(time.time() * 1e6) + 10**12, px=3_600_000)
    current = held(world, lock)
    for each in lined_up(world, lock, name, 3):
        world.release(current)
        current = each.result(PATIENCE)
    server_side.client.delete(keys_of(name).holder)  # its lease has ended
    successor = held(world, Lock(name, lease=20))
    assert successor.fencing_token > current.fencing_token
    world.release(successor)
    with pytest.raises(LockLost):
        world.release(current)


@pytest.mark.parametrize("renew", [True, False])
def test_a_hold_that_passed_and_lasts_is_written_down_as_what_it_is(
    world: World,
    name: str,
    server_side: Observer,
    monkeypatch: pytest.MonkeyPatch,
    renew: bool,
) -> None:
    monkeypatch.setattr(leases, "YOUNG", YOUNG)
    lock, second = Lock(name, label="first", renew=renew), Lock(name, label="second", renew=renew)
    first = held(world, lock)
    (waiter,) = lined_up(world, second, name, 1)
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


def passed_on(world: World, name: str, **options: Any) -> Hold:
    """A hold that another thread or task had first."""
    lock = Lock(name, **options)
    first = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    world.release(first)
    hold: Hold = waiter.result(PATIENCE)
    assert hold.fencing_token == first.fencing_token + 1
    return hold


def test_a_release_that_crosses_the_writing_down_ends_the_hold(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, name, renew=False)
    lease = hold._lease
    script, (keys, argv) = lease.extension
    assert "adopt" == script.name
    # The server has done it, and the reply is still on its way.
    assert lease.restates()
    assert b" 1 " in server_side.client.eval(script.text, len(keys), *keys, *argv)
    assert hold.token != server_side.holder(name)
    world.release(hold)
    assert set() == server_side.left_of(name)
    assert not hold.is_lost


def test_whoever_holds_what_passed_learns_of_a_force_release(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, name, lease=60)
    assert 1 == inspection.release(name)
    until(lambda: hold.is_lost, within=15)
    with pytest.raises(LockLost):
        world.release(hold)
    assert set() == server_side.left_of(name)


def test_what_was_lost_does_not_pass_and_the_next_in_line_asks(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name, renew=False)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    server_side.client.delete(keys_of(name).holder)
    hold._lease.lost = True
    with pytest.raises(LockLost):
        world.release(hold)
    successor = waiter.result(PATIENCE)
    assert successor.token == server_side.holder(name) != hold.token
    world.release(successor)


@pytest.mark.parametrize("share", [0.5, 3.0])
def test_a_hold_passes_only_with_the_lease_that_was_asked_for(
    world: World, name: str, server_side: Observer, share: float
) -> None:
    lock = Lock(name, lease=10, renew=False)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    if share > 1:
        world.extend(hold, 10 * share)
    else:
        hold._lease.deadline -= 10 * (1 - share)
    world.release(hold)
    successor = waiter.result(PATIENCE)
    assert hold.token != successor.token == server_side.holder(name)
    assert 8 < successor.remaining <= 10
    world.release(successor)


def test_who_has_stood_in_line_for_long_joins_the_queue_and_is_not_overtaken(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock(name)
    hold = held(world, lock)
    monkeypatch.setattr(lines, "YOUNG", YOUNG)
    elder = world.start(world.acquire, lock)
    server_side.until_waiters(name, 1)
    monkeypatch.setattr(lines, "YOUNG", PATIENCE)
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
    monkeypatch.setattr(lines, "YOUNG", 0.0)
    hold = held(world, Lock(name))
    monkeypatch.setattr(lines, "YOUNG", PATIENCE)
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
    assert [] == in_line(name)
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
    (behind,) = lined_up(world, lock, name, 1)
    assert asking.result(PATIENCE) is None
    server_side.until_waiters(name, 1)
    world.release(hold)
    world.release(behind.result(PATIENCE))
    assert set() == server_side.left_of(name)


def test_a_cancelled_task_leaves_the_line_and_who_is_behind_it_is_served(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    hold = held(tasks, lock)
    waiting = lined_up(tasks, lock, name, 3)
    waiting[1].cancel()
    until(lambda: len(in_line(name)) == 2)
    before = server_side.commands()
    tasks.release(hold)
    second = waiting[0].result(PATIENCE)
    tasks.release(second)
    third = waiting[2].result(PATIENCE)
    assert 0 == server_side.commands() - before
    tasks.release(third)
    assert set() == server_side.left_of(name)


def test_a_task_that_is_cancelled_as_the_hold_reaches_it_gives_it_back(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    lock = Lock(name)

    async def run() -> None:
        hold = await lock.aacquire()
        assert hold is not None
        first = asyncio.ensure_future(lock.aacquire())
        second = asyncio.ensure_future(lock.aacquire())
        for _ in range(10):
            await asyncio.sleep(0)
        assert 2 == len(in_line(name))
        await hold.arelease()  # it has passed, and the task has not run yet
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        other = await second
        assert other is not None
        assert other.fencing_token > hold.fencing_token + 1
        await other.arelease()

    tasks.run(run())
    assert set() == server_side.left_of(name)


def test_a_detached_hold_that_had_passed_goes_on_elsewhere(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, name)
    text = world.do(hold, "detach")
    adopted = Hold.adopt(text)
    assert hold.fencing_token == adopted.fencing_token
    assert adopted.token == server_side.holder(name)
    adopted.release()
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize("verb", ["detach", "downgrade"])
def test_who_is_in_line_asks_when_the_hold_goes_another_way(
    world: World, name: str, server_side: Observer, verb: str
) -> None:
    lock = Lock(name)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    text = world.do(hold, verb)
    server_side.until_waiters(name, 1)
    if verb == "detach":
        Hold.adopt(text).release()
    else:
        world.release(hold)
    world.release(waiter.result(PATIENCE))
    assert set() == server_side.left_of(name)


def test_a_downgraded_hold_that_had_passed_is_shared(
    world: World, name: str, server_side: Observer
) -> None:
    hold = passed_on(world, name)
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
    until(lambda: len(in_line(name)) == 1)
    world.release(first)
    waiter.result(PATIENCE)
    assert [first.fencing_token + 1] * 2 == seen
    assert set() == server_side.left_of(name)


def test_each_hold_that_passes_is_told_as_any_other(world: World, name: str) -> None:
    from redis_locks.signals import LOCK_SIGNALS

    told: list[Any] = []

    def receive(event: Any, **_: Any) -> None:
        told.append(event)

    lock = Lock(name)
    for signal in LOCK_SIGNALS.values():
        signal.connect(receive)
    try:
        first = held(world, lock)
        (waiter,) = lined_up(world, lock, name, 1)
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


def test_local_batch_0_asks_the_server_for_each_hold(
    world: World, name: str, server_side: Observer
) -> None:
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "LOCAL_BATCH": 0}):
        hold = held(world, Lock(name))
        waiter = world.start(world.acquire, Lock(name))
        server_side.until_waiters(name, 1)
        assert {} == lines._lines
        world.release(hold)
        successor = waiter.result(PATIENCE)
        assert hold.token != successor.token
        world.release(successor)


def test_holds_of_other_kinds_neither_pass_nor_wait_in_line(
    world: World, name: str, server_side: Observer
) -> None:
    for options in ({"mode": "shared"}, {"read": [("GET", "x")]}, {"crash_release": True}):
        hold = held(world, Lock(name, **options))  # type: ignore[arg-type]
        assert {} == lines._lines
        world.release(hold)
    hold = held(world, Lock(name, f"{name}:2"))
    assert {} == lines._lines
    world.release(hold)


def test_a_hold_that_is_dropped_lets_the_next_in_line_ask(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name, lease=0.5, renew=False)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    if isinstance(world, Tasks):
        world.run(asyncio.sleep(0))  # the loop's thread lets go of what it returned
    with pytest.warns(ResourceWarning, match="dropped"):  # noqa: PT031 - to be collected inside
        del hold
        gc.collect()
    successor = waiter.result(PATIENCE)
    world.release(successor)
    assert set() == server_side.left_of(name)


def test_a_forked_child_has_none_of_its_parents_lines(name: str, server_side: Observer) -> None:
    world = Threads()
    lock = Lock(name, wait=PATIENCE)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert {} == lines._lines
            with lock:
                status = 0
        finally:
            os._exit(status)
    server_side.until_waiters(name, 1)
    world.release(hold)
    world.release(waiter.result(PATIENCE))
    assert (child, 0) == os.waitpid(child, 0)
    assert set() == server_side.left_of(name)


def test_an_interrupt_between_passing_a_hold_on_and_noting_it_releases_nothing_of_the_heirs(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, lock = Threads(), Lock(name)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    original = Line.leave
    interrupts = [KeyboardInterrupt]

    def interrupted(self: Line, lease: Any, **options: Any) -> bool:
        passed = original(self, lease, **options)
        if interrupts:
            raise interrupts.pop()
        return passed

    monkeypatch.setattr(Line, "leave", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hold.release()
    heir = waiter.result(PATIENCE)
    assert heir.token == server_side.holder(name)
    assert not heir.is_lost
    heir.release()
    assert set() == server_side.left_of(name)


def test_a_commit_of_which_nobody_knows_whether_it_was_applied_does_not_pass_the_hold_on(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, lock = Threads(), Lock(name)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    original = store.commit

    async def interrupted(*args: Any) -> Any:
        await original(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hold.commit(server_side.client.pipeline().incr(f"{name}:data"))
    hold.release()
    heir = waiter.result(PATIENCE)
    assert hold.token != heir.token == server_side.holder(name)
    heir.release()


def interrupt_once(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Raise KeyboardInterrupt when a line has done what `method` says."""
    original = getattr(Line, method)
    interrupts = [KeyboardInterrupt]

    def interrupted(*args: Any) -> Any:
        outcome = original(*args)
        if interrupts:
            raise interrupts.pop()
        return outcome

    monkeypatch.setattr(Line, method, interrupted)


@pytest.mark.parametrize("method", ["join", "come_out"])
def test_an_interrupt_of_who_stands_in_line_leaves_nothing_behind(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    world, lock = Threads(), Lock(name)
    hold = held(world, lock)
    interrupt_once(monkeypatch, method)
    waiter = world.start(world.acquire, lock)
    if method == "join":
        until(waiter.done)
    else:
        until(lambda: len(in_line(name)) == 1)
    hold.release()
    with pytest.raises(KeyboardInterrupt):
        waiter.result(PATIENCE)
    assert set() == server_side.left_of(name)


def test_an_interrupt_as_the_server_has_granted_the_lock_gives_it_back(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_once(monkeypatch, "begin")
    with pytest.raises(KeyboardInterrupt):
        Lock(name).acquire(wait=1)
    assert set() == server_side.left_of(name)


def test_an_heir_interrupted_when_its_hold_was_written_down_gives_it_back(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, lock = Threads(), Lock(name)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)

    def interrupted(lease: Any, _renewer: Any) -> Any:
        assert lease.restates()
        script, (keys, argv) = lease.extension
        assert b" 1 " in server_side.client.eval(script.text, len(keys), *keys, *argv)
        raise KeyboardInterrupt

    monkeypatch.setattr(acquiring, "Tenure", interrupted)
    hold.release()
    with pytest.raises(KeyboardInterrupt):
        waiter.result(PATIENCE)
    assert set() == server_side.left_of(name)


def test_a_task_gets_the_hold_that_another_thread_releases(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    lock = Lock(name)

    async def run() -> None:
        asyncio.get_running_loop().set_debug(True)  # else it may notice by accident
        try:
            hold = await lock.aacquire()
            assert hold is not None
            heir = asyncio.ensure_future(lock.aacquire())
            for _ in range(10):
                await asyncio.sleep(0)
            assert 1 == len(in_line(name))
            await asyncio.to_thread(hold.release)
            successor = await heir
            assert successor is not None
            assert hold.token == successor.token
            await successor.arelease()
        finally:
            asyncio.get_running_loop().set_debug(False)

    tasks.run(run())
    assert set() == server_side.left_of(name)


def test_a_second_release_at_the_same_time_leaves_the_heir_its_hold(
    world: World, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    world.release(hold)
    heir = waiter.result(PATIENCE)
    hold._released = False  # as the other thread saw it
    world.release(hold)
    assert heir.token == server_side.holder(name)
    registry = heir._tenure.renewer._registry
    assert not registry.discard(hold._lease)
    assert registry.discard(heir._lease)
    world.release(heir)
    assert set() == server_side.left_of(name)


@pytest.mark.parametrize("dropped", [True, False])
def test_a_hold_whose_lease_ended_leaves_its_line(
    world: World, name: str, server_side: Observer, dropped: bool
) -> None:
    hold = held(world, Lock(name, lease=0.02, renew=False))
    if dropped:
        hold._tenure.renewer.discard(hold._lease)  # nobody looks
        until(lambda: hold.is_lost)
        assert lines._lines
        if isinstance(world, Tasks):
            world.run(asyncio.sleep(0))  # the loop's thread lets go of what it returned
        del hold
        gc.collect()
    else:
        until(lambda: not lines._lines)
        with pytest.raises(LockLost):
            world.release(hold)
    assert {} == lines._lines


def test_a_hold_that_passed_and_is_not_renewed_is_not_extended_before_commit(
    name: str, server_side: Observer
) -> None:
    hold = passed_on(Threads(), name, renew=False, lease=10)
    server_side.client.pexpire(keys_of(name).holder, 5000)
    guard.verify([hold])
    assert hold.token == server_side.holder(name)
    assert server_side.client.pttl(keys_of(name).holder) <= 5000
    hold.release()


def test_what_reaches_the_heir_too_late_was_not_lost_by_who_passed_it_on(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, lock = Threads(), Lock(name)
    hold = held(world, lock)
    (waiter,) = lined_up(world, lock, name, 1)
    original = Line.come_out

    def late(self: Line, place: Any) -> None:
        original(self, place)
        place.before.deadline = 0.0
        server_side.client.delete(keys_of(name).holder)

    monkeypatch.setattr(Line, "come_out", late)
    hold.release()
    heir = waiter.result(PATIENCE)
    assert hold.token != heir.token == server_side.holder(name)
    assert not hold._lease.lost
    heir.release()


def test_many_in_a_hurry_never_hold_at_the_same_time(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "YOUNG", YOUNG)
    lock = Lock(name, wait=PATIENCE)
    inside: list[int] = []
    most: list[int] = []
    fences: list[int] = []

    def body(hold: Hold) -> None:
        inside.append(1)
        most.append(len(inside))
        fences.append(hold.fencing_token)
        inside.pop()

    if isinstance(world, Tasks):
        world.run(tasks_in_turn(lock, body))
    else:
        threads_in_turn(lock, body)
    assert [1] * 320 == most
    assert sorted(set(fences)) == fences
    assert set() == server_side.left_of(name)


def threads_in_turn(lock: Lock, body: Callable[[Hold], None]) -> None:
    ready = threading.Barrier(8)

    def several() -> None:
        ready.wait(PATIENCE)
        for _ in range(40):
            with lock as hold:
                body(hold)

    for worker in [Threads().start(several) for _ in range(8)]:
        worker.result(PATIENCE)


async def tasks_in_turn(lock: Lock, body: Callable[[Hold], None]) -> None:
    async def several() -> None:
        for _ in range(40):
            async with lock as hold:
                body(hold)

    await asyncio.gather(*(several() for _ in range(8)))
