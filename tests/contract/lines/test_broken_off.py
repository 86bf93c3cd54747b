"""Tasks cancelled and threads interrupted while a hold passes, or while they stand in line."""

from __future__ import annotations

import asyncio

import pytest

from redis_locks import Lock
from tests.support import calls, handover
from tests.support.handover import in_line, one_behind, some_behind, tasks_behind
from tests.support.world import PATIENCE, Observer, Tasks, Threads, held, until


def test_a_cancelled_task_leaves_the_line_and_who_is_behind_it_is_served(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    lock = Lock(name)
    hold, waiting = some_behind(tasks, lock, 3)
    waiting[1].cancel()
    until(lambda: len(in_line(lock)) == 2)
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
        first, second = await tasks_behind(lock, 2)
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


def test_an_interrupt_between_passing_a_hold_on_and_noting_it_releases_nothing_of_the_heirs(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, waiter = one_behind(Threads(), Lock(name))
    handover.interrupt_once(monkeypatch, "leave")
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
    hold, waiter = one_behind(Threads(), Lock(name))
    calls.lose_the_reply(monkeypatch, "commit", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        hold.commit(server_side.client.pipeline().incr(f"{name}:data"))
    hold.release()
    heir = waiter.result(PATIENCE)
    assert hold.token != heir.token == server_side.holder(name)
    heir.release()


@pytest.mark.parametrize("method", ["join", "come_out"])
def test_an_interrupt_of_who_stands_in_line_leaves_nothing_behind(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    world, lock = Threads(), Lock(name)
    hold = held(world, lock)
    handover.interrupt_once(monkeypatch, method)
    waiter = world.start(world.acquire, lock)
    if method == "join":
        until(waiter.done)
    else:
        until(lambda: len(in_line(lock)) == 1)
    hold.release()
    with pytest.raises(KeyboardInterrupt):
        waiter.result(PATIENCE)
    assert set() == server_side.left_of(name)


def test_an_interrupt_as_the_server_has_granted_the_lock_gives_it_back(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    handover.interrupt_once(monkeypatch, "begin")
    with pytest.raises(KeyboardInterrupt):
        Lock(name).acquire(wait=1)
    assert set() == server_side.left_of(name)


def test_an_heir_interrupted_when_its_hold_was_written_down_gives_it_back(
    name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, waiter = one_behind(Threads(), Lock(name))
    handover.interrupt_once_stated(monkeypatch, server_side)
    hold.release()
    with pytest.raises(KeyboardInterrupt):
        waiter.result(PATIENCE)
    assert set() == server_side.left_of(name)
