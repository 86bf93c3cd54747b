"""A holder learns at once that somebody else ended its hold."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from redis_locks import Hold, Lock, LockLost, Semaphore, inspection
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import in_thread
from tests.support import leases, stored, timings
from tests.support.connections import refuse_to_listen
from tests.support.timings import YOUNG
from tests.support.world import PATIENCE, Tasks, Threads, World, granted, held, until

SOON = 2.0
"""Far below the third of a lease after which it is renewed; nearly always it takes milliseconds."""


@pytest.mark.parametrize("age", [0.0, YOUNG * 3], ids=["young", "older"])
@pytest.mark.parametrize(
    "made",
    [
        Lock,
        lambda name, **options: Lock(name, mode="shared", **options),
        lambda name, **options: Lock(name, f"{name}:more", **options),
        lambda name, **options: Semaphore(name, 3, **options),
    ],
    ids=["exclusive", "shared", "set", "permit"],
)
@pytest.mark.parametrize("renew", [True, False])
def test_a_holder_is_told_at_once(
    world: World, name: str, made: Any, age: float, *, renew: bool
) -> None:
    hold = held(world, made(name, lease=60, renew=renew))
    time.sleep(age)
    assert 1 == inspection.force_release(name).ended
    until(lambda: hold.is_lost, within=SOON)
    with pytest.raises(LockLost):
        world.release(hold)


def test_all_holds_of_a_host_are_told(world: World, name: str) -> None:
    holds = [held(world, Lock(f"{name}:{number}", lease=60)) for number in range(3)]
    host = inspection.lock(f"{name}:0").holders[0].host  # type: ignore[union-attr]
    inspection.drain(host)
    until(lambda: all(hold.is_lost for hold in holds), within=SOON)
    for hold in holds:
        with pytest.raises(LockLost):
            world.release(hold)


def test_other_holds_go_on(world: World, name: str) -> None:
    lost, kept = held(world, Lock(f"{name}:lost")), held(world, Lock(f"{name}:kept"))
    inspection.force_release(f"{name}:lost")
    until(lambda: lost.is_lost, within=SOON)
    kept.check()
    world.release(kept)


def test_short_holds_open_no_connection_of_their_own(
    name: str, listening: Callable[[], bool]
) -> None:
    for _ in range(200):
        with Lock(name):
            pass
    assert not listening()


def test_a_process_whose_subscription_broke_asks_about_its_holds(
    world: World, name: str, client: redis.Redis, listening: Callable[[], bool]
) -> None:
    kept, hold = (held(world, Lock(each, lease=60)) for each in ("kept", "lost"))
    until(listening)
    # Neither the message nor the connection: as if both were lost in a broken network.
    stored.drop_holder(client, f"{name}{{0}}:lock:lost".encode())
    client.client_kill_filter(_type="pubsub", skipme=True)
    until(lambda: hold.is_lost, within=SOON)
    until(listening)
    kept.check()
    world.release(kept)
    with pytest.raises(LockLost):
        world.release(hold)


def test_it_listens_no_more_when_nothing_is_held(
    name: str, listening: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.renewal_ends_after(monkeypatch, 0.25)
    with Lock(name):
        until(listening)
    until(lambda: not listening())


def test_it_listens_on_while_something_is_held_now_and_then(
    name: str, listening: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    timings.renewal_ends_after(monkeypatch, 0.5)
    with Lock(name):
        until(listening)
    for _ in range(30):
        with Lock(name):
            pass
        time.sleep(0.05)
        assert listening()


# The task in the block is cancelled


def test_a_block_that_ends_its_own_hold_when_it_is_cancelled_for_the_loss_says_lost(
    tasks: Tasks, name: str
) -> None:
    async def block() -> None:
        async with Lock(name, lease=60) as hold:
            try:
                await asyncio.to_thread(inspection.force_release, name)
                await asyncio.sleep(PATIENCE)
            finally:
                with suppress(LockLost):
                    await hold.arelease()

    with pytest.raises(LockLost):
        tasks.run(block())


async def wait_in(lock: Any, entered: asyncio.Event, seen: list[BaseException]) -> None:
    async with lock:
        entered.set()
        try:
            await asyncio.sleep(PATIENCE)
        except BaseException as error:
            seen.append(error)
            raise


@pytest.mark.parametrize("how", ["lock", "hold", "nested"])
def test_the_task_in_the_block_is_cancelled_and_the_block_raises_lock_lost(
    tasks: Tasks, name: str, how: str
) -> None:
    async def run() -> None:
        entered, seen = asyncio.Event(), list[BaseException]()
        lock = Lock(name, lease=60)

        async def nested() -> None:
            async with lock:
                await wait_in(lock, entered, seen)

        body = (
            nested()
            if how == "nested"
            else wait_in(lock.hold() if how == "hold" else lock, entered, seen)
        )
        task = asyncio.create_task(body)
        await entered.wait()
        assert await inspection.aforce_release(name)
        with pytest.raises(LockLost):
            await asyncio.wait_for(task, SOON)
        assert isinstance(seen[0], asyncio.CancelledError)
        assert 0 == task.cancelling()

    tasks.run(run())


def test_lost_after_a_nested_upgrade_the_outer_block_raises_lock_lost(
    tasks: Tasks, name: str
) -> None:
    async def run() -> None:
        async with Lock(name, mode="shared", lease=60):
            async with Lock(name):
                pass
            await inspection.aforce_release(name)
            await asyncio.sleep(PATIENCE)

    with pytest.raises(LockLost):
        tasks.run(run())


def test_a_lease_that_is_not_renewed_ends_the_block_at_its_end(tasks: Tasks, name: str) -> None:
    async def run() -> None:
        with pytest.raises(LockLost):
            await wait_in(Lock(name, lease=0.2, renew=False), asyncio.Event(), [])

    tasks.run(run())


def test_a_cancellation_by_others_stays_one(tasks: Tasks, name: str) -> None:
    async def run() -> None:
        entered = asyncio.Event()
        task = asyncio.create_task(wait_in(Lock(name), entered, []))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    tasks.run(run())
    until(lambda: inspection.lock(name) is None)


def test_both_cancellations_at_once_leave_the_others(tasks: Tasks, name: str) -> None:
    async def run() -> None:
        entered = asyncio.Event()
        task = asyncio.create_task(wait_in(Lock(name, lease=60), entered, []))
        await entered.wait()
        await inspection.aforce_release(name)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    tasks.run(run())


@pytest.mark.parametrize("debug", [False, True])
def test_a_loss_that_a_thread_hears_of_cancels_the_task_too(
    tasks: Tasks, name: str, *, debug: bool
) -> None:
    tasks.loop.set_debug(debug)
    hold, other = (held(Threads(), Lock(each, lease=60)) for each in (name, f"{name}:other"))
    entered, seen = asyncio.Event(), list[BaseException]()
    block = tasks.submit(wait_in(hold, entered, seen))
    tasks.run(entered.wait())
    inspection.force_release(name)
    with pytest.raises(LockLost):
        block.result(SOON)
    assert isinstance(seen[0], asyncio.CancelledError)
    inspection.force_release(f"{name}:other")
    until(lambda: other.is_lost, within=SOON)  # it hears on


def test_a_lease_of_a_thread_that_ends_cancels_the_task_too(tasks: Tasks, name: str) -> None:
    hold = held(Threads(), Lock(name, lease=0.5, renew=False))
    with pytest.raises(LockLost):
        tasks.submit(wait_in(hold, asyncio.Event(), [])).result(0.5 + SOON)


def test_a_block_does_not_begin_with_a_hold_that_is_lost(tasks: Tasks, name: str) -> None:
    async def run() -> None:
        hold = await Lock(name, lease=60).aacquire()
        await inspection.aforce_release(name)
        await asyncio.to_thread(until, lambda: hold.is_lost)
        with pytest.raises(LockLost):
            async with hold:
                pytest.fail("it began")
        assert 0 == asyncio.current_task().cancelling()  # type: ignore[union-attr]

    tasks.run(run())


def test_a_loop_that_is_closed_is_nobodys_to_be_cancelled(name: str) -> None:
    async def enter() -> Hold:
        hold = await Lock(name, lease=60).aacquire()
        return await hold.__aenter__()

    hold = asyncio.run(enter())
    leases.tell_lost(hold)
    hold.release()


def here(tell: Callable[[], None]) -> None:
    tell()


@pytest.mark.parametrize("found", [here, in_thread])
def test_a_block_that_ends_by_itself_meanwhile_raises_lock_lost_and_nothing_else(
    tasks: Tasks, name: str, found: Callable[[Callable[[], None]], None]
) -> None:
    async def run() -> str:
        async def block() -> None:
            async with Lock(name, lease=60) as hold:
                leases.mark_lost(hold)
                found(lambda: leases.tell_lost(hold))

        with pytest.raises(LockLost):
            await block()
        await asyncio.sleep(0)
        return "went on"

    assert "went on" == tasks.run(run())
    inspection.force_release(name)


def test_code_that_awaits_in_no_block_asks_for_itself(tasks: Tasks, name: str) -> None:
    async def run() -> bool:
        hold = granted(await Lock(name, lease=60).aacquire())
        await inspection.aforce_release(name)
        await asyncio.to_thread(until, lambda: hold.is_lost)
        with pytest.raises(LockLost):
            await hold.arelease()
        return True

    assert tasks.run(run())


def test_holds_are_renewed_although_the_client_cannot_connect_to_listen(
    name: str, private_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    refuse_to_listen(monkeypatch, tried.set)
    with Lock(name, using=private_server.url, lease=3) as hold:
        assert tried.wait(PATIENCE)
        leases.until_renewed(hold)
