"""Release and extend touch only the caller's own hold, and leaving a block tells the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import replace

import pytest

from redis_locks import (
    Hold,
    Lock,
    LockBackendError,
    LockError,
    LockLost,
    LockNotHeld,
    Semaphore,
    inspection,
)
from redis_locks.testing.server import EmbeddedServer
from tests.support import calls, stored
from tests.support.children import run_script
from tests.support.world import (
    PATIENCE,
    Observer,
    Tasks,
    Threads,
    World,
    existing,
    held,
    in_line,
    keys_of,
    queue,
    served,
    until,
)

ENDS_IN_A_BLOCK = """
import sys
import django

django.setup()
from redis_locks import Lock


def suspended():
    with Lock(sys.argv[2], using=sys.argv[1], lease=60):
        yield


generator = suspended()
next(generator)
"""

ENDS_IN_AN_ASYNC_BLOCK = """
import asyncio
import sys
import django

django.setup()
from redis_locks import Lock


async def suspended():
    async with Lock(sys.argv[2], using=sys.argv[1], lease=60):
        yield


async def begin():
    await anext(generator)


generator = suspended()
loop = asyncio.new_event_loop()
loop.run_until_complete(begin())
loop.close()
"""


def overrun(world: World, name: str) -> Hold:
    """A hold whose lease has ended."""
    hold = held(world, Lock(name, lease=0.02, renew=False))
    until(lambda: hold.is_lost)
    return hold


def test_releasing_twice_does_nothing_the_second_time(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    world.release(hold)
    successor = held(world, Lock(name))
    world.release(hold)
    assert successor.token == server_side.holder(name)
    assert not hold.is_lost
    assert 0.0 == hold.remaining
    world.release(successor)


def test_a_release_that_was_applied_unheard_is_no_loss_when_it_is_repeated(
    world: World, name: str, server_side: Observer, monkeypatch: pytest.MonkeyPatch, hold: Hold
) -> None:
    calls.lose_the_reply(monkeypatch, "release", LockBackendError("nobody heard the reply"))
    with pytest.raises(LockBackendError):
        world.release(hold)
    assert set() == server_side.left_of(name)
    world.release(hold)
    assert not hold.is_lost


def test_releasing_inside_the_block_is_not_an_error_at_its_end(
    world: World, name: str, server_side: Observer
) -> None:
    def body(hold: Hold) -> object:
        return hold.release() if world.kind == "blocking" else hold.arelease()

    world.block(Lock(name), body)
    assert set() == server_side.left_of(name)


def test_a_hold_that_is_lost_cannot_release_its_successors_lock(
    world: World, name: str, server_side: Observer
) -> None:
    late = overrun(world, name)
    successor = held(world, Lock(name))
    with pytest.raises(LockLost):
        world.release(late)
    assert successor.token == server_side.holder(name)
    world.release(late)
    assert successor.token == server_side.holder(name)
    world.release(successor)
    assert set() == server_side.left_of(name)


def test_a_hold_that_is_lost_cannot_be_extended(
    world: World, name: str, server_side: Observer
) -> None:
    late = overrun(world, name)
    successor = held(world, Lock(name, renew=False))
    left = successor.remaining
    with pytest.raises(LockLost):
        world.extend(late, 60)
    assert successor.remaining <= left
    assert stored.lease_left_ms(server_side.client, keys_of(name).lock) <= 10_000
    world.release(successor)


def test_a_hold_revoked_on_the_server_is_told_so_by_extend_and_release(
    world: World, name: str, server_side: Observer
) -> None:
    for operation in (lambda hold: world.extend(hold, 5), world.release):
        hold = held(world, Lock(name, renew=False))
        stored.drop_holder(server_side.client, keys_of(name).lock)
        with pytest.raises(LockLost):
            operation(hold)
        assert hold.is_lost


def test_a_released_hold_can_be_neither_checked_nor_extended(world: World, hold: Hold) -> None:
    hold.check()
    world.release(hold)
    with pytest.raises(LockNotHeld):
        hold.check()
    with pytest.raises(LockNotHeld):
        world.extend(hold, 5)


def test_extend_makes_the_lease_longer(world: World, name: str, server_side: Observer) -> None:
    hold = held(world, Lock(name, lease=5, renew=False))
    world.extend(hold, 30)
    assert 25 < hold.remaining <= 30
    assert 25_000 < stored.lease_left_ms(server_side.client, keys_of(name).lock) <= 30_000
    world.release(hold)


def test_extend_never_makes_the_lease_shorter(
    world: World, name: str, server_side: Observer
) -> None:
    hold = held(world, Lock(name, lease=30, renew=False))
    world.extend(hold, 1)
    assert 25 < hold.remaining <= 30
    assert 25_000 < stored.lease_left_ms(server_side.client, keys_of(name).lock) <= 30_000
    world.release(hold)


def test_leaving_a_block_whose_lock_was_lost_raises(world: World, name: str) -> None:
    def outlast(hold: Hold) -> None:
        until(lambda: hold.is_lost)
        with pytest.raises(LockLost):
            hold.check()

    with pytest.raises(LockLost):
        world.block(Lock(name, lease=0.02, renew=False), outlast)


def test_the_error_of_the_body_wins_over_the_loss_and_carries_a_note(
    world: World, name: str
) -> None:
    def outlast_and_fail(hold: Hold) -> None:
        until(lambda: hold.is_lost)
        raise KeyError("the body's own")

    with pytest.raises(KeyError, match="the body's own") as caught:
        world.block(Lock(name, lease=0.02, renew=False), outlast_and_fail)
    assert any("lost" in note for note in caught.value.__notes__)


def test_a_block_that_raises_releases_the_lock(
    world: World, name: str, server_side: Observer
) -> None:
    def fail(_: Hold) -> None:
        raise KeyError("anything")

    with pytest.raises(KeyError):
        world.block(Lock(name), fail)
    assert set() == server_side.left_of(name)


def test_release_hands_the_lock_over_without_waiting_for_a_recheck(
    world: World, name: str, server_side: Observer
) -> None:
    slowest = 0.0
    hold = held(world, Lock(name))
    for _ in range(5):
        waiter = in_line(world, Lock(name), server_side)
        started = time.monotonic()
        world.release(hold)
        hold = waiter.result(PATIENCE)
        slowest = max(slowest, time.monotonic() - started)
    world.release(hold)
    assert slowest < 1  # a waiter asks again only after two seconds


def test_only_the_fencing_counter_stays_and_it_expires(
    world: World, name: str, server_side: Observer
) -> None:
    workers = [world.start(world.block, Lock(name), lambda _: None) for _ in range(10)]
    for worker in workers:
        worker.result(PATIENCE)
    left = list(server_side.client.scan_iter(f"*{name}*"))
    assert [keys_of(name).lock] == left
    assert stored.is_idle(server_side.client, keys_of(name).lock)
    assert 3500 < server_side.client.ttl(keys_of(name).lock) <= 3600 + 600 + 60


def test_every_key_of_a_lock_in_use_has_an_expiry(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    waiters = queue(world, Lock(name), server_side, 2)
    keys = keys_of(name)
    assert -1 not in [server_side.client.pttl(key) for key in keys]  # -2: there is none
    world.release(hold)
    server_side.until_waiters(name, 1)
    assert -1 not in [server_side.client.pttl(key) for key in keys]  # -2: there is none
    for waiter in waiters:
        until(lambda: any(each.done() for each in waiters))
        done = next(each for each in waiters if each.done() and each.result().remaining)
        world.release(done.result())
        if waiter is not waiters[-1]:
            until(lambda: sum(each.done() for each in waiters) == 2)
    assert set() == server_side.left_of(name)


def test_a_cancelled_waiter_is_told_at_once_and_leaves(
    world: World, name: str, server_side: Observer, hold: Hold
) -> None:
    doomed = in_line(world, Lock(name, wait=None), server_side)
    other = in_line(world, Lock(name, wait=PATIENCE), server_side, place=2)
    info = existing(name)
    (waiter, _) = info.waiters
    assert inspection.cancel(waiter)
    with pytest.raises(LockError, match="cancelled by an operator"):
        doomed.result(2)
    assert not inspection.cancel(waiter)
    assert not inspection.cancel(replace(waiter, token=hold.token))
    world.release(hold)
    served(world, other)
    assert set() == server_side.left_of(name)


def test_the_block_of_a_generator_that_another_thread_closes_releases(
    name: str, server_side: Observer
) -> None:
    def suspended() -> Generator[None]:
        with Lock(name, lease=60):
            yield

    generator = suspended()
    next(generator)
    assert server_side.holder(name)
    threading.Thread(target=generator.close).start()
    until(lambda: server_side.left_of(name) == set())


def elsewhere(work: Callable[[], object]) -> BaseException | None:
    """What `work` raises in another thread."""
    return Threads().start(work).exception(PATIENCE)


def test_a_block_that_a_call_has_entered_is_ended_by_a_call_in_another_thread(
    name: str, server_side: Observer
) -> None:
    lock = Lock(name, lease=60)
    lock.__enter__()
    assert server_side.holder(name)
    assert elsewhere(lambda: lock.__exit__(None, None, None)) is None
    assert set() == server_side.left_of(name)


def test_nobody_ends_the_block_of_another_thread_where_it_is_one_of_several(
    name: str, server_side: Observer
) -> None:
    lock = Semaphore(name, 2, lease=60)
    lock.__enter__()
    assert elsewhere(lock.__enter__) is None
    assert isinstance(elsewhere(lambda: lock.__exit__(None, None, None)), RuntimeError)
    info = existing(name)
    assert 2 == info.holding
    lock.__exit__(None, None, None)
    assert elsewhere(lambda: lock.__exit__(None, None, None)) is None
    assert set() == server_side.left_of(name)


def test_the_block_of_an_async_generator_that_another_task_closes_releases(
    tasks: Tasks, name: str, server_side: Observer
) -> None:
    async def suspended() -> AsyncGenerator[None]:
        async with Lock(name, lease=60):
            yield

    async def begun() -> AsyncGenerator[None]:
        generator = suspended()
        await anext(generator)
        return generator

    generator = tasks.run(begun())
    assert server_side.holder(name)
    tasks.run(generator.aclose())  # each run is a task
    assert set() == server_side.left_of(name)


def test_a_block_that_ends_with_its_process_releases(
    redis_server: EmbeddedServer, name: str, server_side: Observer
) -> None:
    """Python closes a generator last of all, when it can import no more."""
    ended = run_script(ENDS_IN_A_BLOCK, redis_server.url, name)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert set() == server_side.left_of(name)


def test_an_async_block_that_its_loop_did_not_end_leaves_the_lock_to_its_lease_as_its_process_ends(
    redis_server: EmbeddedServer, name: str
) -> None:
    """No thread begins any more that could release it, and Python 3.11 would wait for one."""
    ended = run_script(ENDS_IN_AN_ASYNC_BLOCK, redis_server.url, name)
    assert 0 == ended.returncode
    assert "the lock ends with its lease" in ended.stderr
