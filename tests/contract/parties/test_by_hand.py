"""A hold that was taken by hand: no acquire finds it until it is a block.

Another acquire waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from inspect import currentframe
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from django.test import override_settings

from redis_locks import (
    Hold,
    Lock,
    LockError,
    LockNotHeld,
    LockTimeout,
    Semaphore,
    inspection,
)
from tests.contract.parties.ways import BLOCKS, NESTS, WAITS, Block, aasked, asked, every, run
from tests.elsewhere import in_thread
from tests.support.world import PATIENCE, Tasks, granted, until

LOCK = BLOCKS[0]
BY_HAND = [way for way in BLOCKS if way.is_acquired_by_hand]

pytestmark = pytest.mark.usefixtures("row", "own_prefix")


@pytest.fixture
def looks_for_deadlocks_at_once(name: str) -> Iterator[None]:
    with override_settings(REDIS_LOCKS={"PREFIX": name, "DEADLOCK_TIMEOUT": 0.02}):
        yield


def line_above() -> str:
    """The file and the line above the one that calls this."""
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{Path(__file__).name}:{frame.f_back.f_lineno - 1}"


@every(BY_HAND)
def test_what_a_thread_takes_by_hand_nests_nothing(way: Block, name: str) -> None:
    hold: Any = way.enter(name)
    hold = granted(hold.acquire())
    assert WAITS == asked(way, name)
    hold.release()
    assert () == inspection.parties().holders


@every(BY_HAND)
def test_what_a_task_takes_by_hand_nests_nothing(way: Block, name: str) -> None:
    async def main() -> str:
        hold: Any = await way.aenter(name)
        hold = granted(await hold.aacquire())
        word = await aasked(way, name)
        await hold.arelease()
        return word

    assert WAITS == run(main())
    assert () == inspection.parties().holders


def test_an_adopted_hold_nests_only_inside_its_block(name: str) -> None:
    taken = granted(Lock(name).acquire(wait=0))
    hold = Hold.adopt(taken.detach())
    assert WAITS == asked(LOCK, name)
    with hold:
        assert NESTS == asked(LOCK, name)
    assert () == inspection.parties().holders


def test_a_hold_that_a_task_adopts_nests_only_inside_its_block(name: str) -> None:
    async def main() -> tuple[str, str]:
        taken = granted(await Lock(name).aacquire(wait=0))
        hold = await Hold.aadopt(await taken.adetach())
        before = await aasked(LOCK, name)
        async with hold:
            return before, await aasked(LOCK, name)

    assert (WAITS, NESTS) == run(main())
    assert () == inspection.parties().holders


@pytest.mark.usefixtures("looks_for_deadlocks_at_once")
def test_a_bounded_wait_for_what_the_thread_took_by_hand_ends_by_its_time(name: str) -> None:
    hold = granted(Lock(name).acquire(wait=0))
    where = line_above()
    assert Lock(name).acquire(wait=0) is None
    assert Lock(name).acquire(wait=0.05) is None
    with pytest.raises(LockTimeout) as told, Lock(name, wait=0.3):
        pytest.fail("it has it")
    assert where in str(told.value)
    assert "with hold:" in str(told.value)
    hold.release()


@pytest.mark.usefixtures("looks_for_deadlocks_at_once")
def test_a_bounded_wait_for_what_the_task_took_by_hand_ends_by_its_time(name: str) -> None:
    async def main() -> None:
        hold = granted(await Lock(name).aacquire(wait=0))
        where = line_above()
        assert await Lock(name).aacquire(wait=0) is None
        assert await Lock(name).aacquire(wait=0.05) is None
        with pytest.raises(LockTimeout) as told:
            async with Lock(name, wait=0.3):
                pytest.fail("it has it")
        assert where in str(told.value)
        assert "with hold:" in str(told.value)
        await hold.arelease()

    asyncio.run(main())


def warnings_with(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if (record.name, record.levelname) == ("redis_locks", "WARNING")
        and text in record.getMessage()
    ]


@pytest.mark.usefixtures("looks_for_deadlocks_at_once")
def test_an_endless_wait_for_what_the_thread_took_by_hand_warns_and_gets_it_when_it_is_released(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    hold = granted(Lock(name).acquire(wait=0))
    where = line_above()

    def release() -> None:
        until(lambda: warnings_with(where, caplog))
        hold.release()

    thread = Thread(target=release)
    thread.start()
    with Lock(name, wait=None) as got:
        assert hold.fencing_token < got.fencing_token
    thread.join()
    (warning,) = warnings_with(where, caplog)
    assert "with hold:" in warning


@pytest.mark.usefixtures("looks_for_deadlocks_at_once")
def test_an_endless_wait_for_what_the_task_took_by_hand_warns_and_gets_it_when_it_is_released(
    tasks: Tasks, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> str:
        hold = granted(await Lock(name).aacquire(wait=0))
        where = line_above()

        async def release() -> None:
            await asyncio.to_thread(until, lambda: warnings_with(where, caplog))
            await hold.arelease()

        releasing = asyncio.create_task(release())
        async with asyncio.timeout(PATIENCE), Lock(name, wait=None) as got:
            assert hold.fencing_token < got.fencing_token
        await releasing
        return where

    where = tasks.run(main())
    (warning,) = warnings_with(where, caplog)
    assert "with hold:" in warning


@pytest.mark.usefixtures("looks_for_deadlocks_at_once")
def test_a_wait_for_what_the_thread_took_by_hand_keeps_its_place_in_the_queue(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    hold = granted(Lock(name).acquire(wait=0))
    where = line_above()
    with ThreadPoolExecutor(2) as pool:

        def wait_behind() -> int:
            until(lambda: warnings_with(where, caplog))
            with Lock(name, wait=PATIENCE) as second:
                return second.fencing_token

        def release() -> None:
            try:
                until(lambda: any(lock.waiting == 2 for lock in inspection.contended()), within=5)
            finally:
                hold.release()

        behind, releasing = pool.submit(wait_behind), pool.submit(release)
        with Lock(name, wait=None) as got:
            releasing.result()
        assert hold.fencing_token < got.fencing_token < behind.result()


def test_a_worker_that_hands_its_hold_to_another_thread_waits_for_it_in_its_next_job(
    name: str,
) -> None:
    lock = Lock(name, wait=PATIENCE)
    with ThreadPoolExecutor(1) as worker:
        first = worker.submit(lock.acquire).result()
        second = worker.submit(lock.acquire)
        until(inspection.names)
        assert first is not None
        first.release()
        got = second.result()
        assert got is not None
        assert first.fencing_token < got.fencing_token
        got.release()


def test_calls_by_to_thread_that_share_a_thread_exclude_each_other(name: str) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        lock = Lock(name, wait=0)
        first = await asyncio.to_thread(lock.acquire)
        assert first is not None
        assert await asyncio.to_thread(lock.acquire) is None
        await asyncio.to_thread(first.release)
        again = await asyncio.to_thread(lock.acquire)
        assert again is not None
        await asyncio.to_thread(again.release)

    asyncio.run(main())


def test_reentrant_by_thread_nests_in_all_that_the_thread_has(name: str) -> None:
    lock = Lock(name, wait=0, reentrant="thread")

    def holds() -> Iterator[None]:
        with lock:
            yield

    hold = granted(lock.acquire())
    with lock as nested, closing(holds()) as suspended:
        next(suspended)
        hold.release()
        with lock as again:
            assert hold.fencing_token == nested.fencing_token == again.fencing_token
        assert in_thread(lock.acquire) is None
    assert () == inspection.parties().holders


def test_reentrant_by_thread_nests_in_all_that_the_task_has(name: str) -> None:
    async def main() -> None:
        lock = Lock(name, wait=0, reentrant="thread")
        hold = granted(await lock.aacquire())
        async with lock as nested:
            assert hold.fencing_token == nested.fencing_token
            assert await asyncio.create_task(lock.aacquire()) is None
        await hold.arelease()

    asyncio.run(main())
    assert () == inspection.parties().holders


def test_reentrant_by_thread_does_not_nest_in_what_another_task_has_in_the_same_thread(
    name: str,
) -> None:
    lock = Lock(name, wait=0, reentrant="thread")

    async def main() -> None:
        holds = await asyncio.gather(*(sync_to_async(lock.acquire)() for _ in range(3)))
        (hold,) = filter(None, holds)
        await sync_to_async(hold.release)()

    asyncio.run(main())
    assert () == inspection.parties().holders


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lock", [Lock, lambda name: Semaphore(name, 1)], ids=["Lock", "Semaphore"])
def test_a_transaction_has_what_is_taken_in_it_by_hand(lock: Any, name: str) -> None:
    with transaction.atomic():
        hold = granted(lock(name).acquire(wait=0))
        again = granted(lock(name).acquire(wait=0))
        assert hold.token == again.token
        assert in_thread(lambda: lock(name).acquire(wait=0)) is None
    assert () == inspection.parties().holders


@pytest.mark.django_db(transaction=True)
def test_a_transaction_has_its_hold_still_when_a_block_of_that_hold_has_ended(name: str) -> None:
    with transaction.atomic():
        hold = granted(Lock(name).acquire(wait=0))
        with ExitStack() as stack:
            stack.enter_context(hold)
        with Lock(name, scope="block", wait=0) as nested:
            assert hold.token == nested.token
    assert () == inspection.parties().holders


def test_a_hold_that_was_released_begins_no_block(name: str) -> None:
    hold = granted(Lock(name).acquire(wait=0))
    with hold:
        pass
    with Lock(name, wait=0), pytest.raises(LockNotHeld), hold:
        pytest.fail("two were inside")


def test_a_hold_that_was_released_begins_no_async_block(name: str) -> None:
    async def main() -> None:
        hold = granted(await Lock(name).aacquire(wait=0))
        await hold.arelease()
        async with Lock(name, wait=0):
            with pytest.raises(LockNotHeld):
                async with hold:
                    pytest.fail("two were inside")

    asyncio.run(main())


def test_a_hold_that_a_block_has_is_refused_to_the_block_of_another_thread(name: str) -> None:
    def enter(hold: Hold) -> None:
        with hold:
            pytest.fail("it is inside")

    with Lock(name) as hold:
        with pytest.raises(LockError, match="another block"):
            in_thread(enter, hold)
        with pytest.raises(LockError, match="another block"):
            enter(hold)  # its end would release what the block goes on with
        nested = granted(Lock(name).acquire(wait=0))
        with pytest.raises(LockError, match="another block"):
            in_thread(enter, nested)
        with nested:
            hold.check()
        hold.check()


@pytest.mark.django_db(transaction=True)
def test_a_hold_that_a_transaction_keeps_is_refused_to_the_block_of_another_thread(
    name: str,
) -> None:
    with transaction.atomic():
        hold = granted(Lock(name).acquire(wait=0))
        with pytest.raises(LockError, match="another block"):
            in_thread(hold.__enter__)
        with hold:
            pass
        hold.check()


def test_of_two_threads_that_enter_one_hold_at_once_one_is_inside(name: str) -> None:
    both = Barrier(2)

    def enter(hold: Hold) -> bool:
        both.wait()
        try:
            with hold:
                both.wait()
        except LockError:
            both.wait()
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for _ in range(50):
            hold = granted(Lock(name).acquire(wait=PATIENCE))
            assert [False, True] == sorted(pool.map(enter, [hold, hold]))


def test_locks_that_a_comprehension_enters_are_those_of_its_function(name: str) -> None:
    names = [f"{name}:{each}" for each in range(2)]
    with ExitStack() as stack:
        held = [stack.enter_context(Lock(each)) for each in names]
        for each, hold in zip(names, held, strict=True):
            with Lock(each, wait=0) as nested:
                assert hold.token == nested.token
