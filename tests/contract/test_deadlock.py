"""Waits that would never end are found, and exactly one of them is ended."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any

import pytest
from django.db import OperationalError

from redis_locks import DeadlockDetected, Lock, Semaphore
from tests.support.world import PATIENCE, Observer, Tasks, World, held, until

SOON = 0.3


@pytest.fixture(autouse=True)
def looks_soon(settings: Any) -> None:
    """A wait looks for a deadlock sooner than by default; a second look still comes 2 s later."""
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "DEADLOCK_TIMEOUT": SOON}


class Meeting:
    """Lets all parties in once all have come, threads and tasks alike."""

    def __init__(self, parties: int) -> None:
        self._missing = parties
        self._mutex = threading.Lock()
        self._complete = threading.Event()

    def arrive(self) -> None:
        with self._mutex:
            self._missing -= 1
        if self._missing == 0:
            self._complete.set()

    def wait(self) -> None:
        assert self._complete.wait(PATIENCE)

    async def await_(self) -> None:
        await asyncio.to_thread(self.wait)


def party(world: World, first: Any, second: Any, meeting: Meeting) -> Future[float]:
    """Hold `first`, meet the others, then take `second`; the time that took. Both are let go."""

    def block() -> float:
        with first:
            meeting.arrive()
            meeting.wait()
            started = monotonic()
            try:
                with second:
                    return monotonic() - started
            except DeadlockDetected as error:
                error.add_note(f"after {monotonic() - started:.3f}")
                raise

    async def task() -> float:
        async with first:
            meeting.arrive()
            await meeting.await_()
            started = monotonic()
            try:
                async with second:
                    return monotonic() - started
            except DeadlockDetected as error:
                error.add_note(f"after {monotonic() - started:.3f}")
                raise

    return world.submit(task()) if isinstance(world, Tasks) else in_thread(block)


def in_thread(work: Callable[[], float]) -> Future[float]:
    future: Future[float] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def victims(parties: list[Future[float]]) -> list[DeadlockDetected]:
    errors = [party.exception(PATIENCE) for party in parties]
    for error in errors:
        assert error is None or isinstance(error, DeadlockDetected)
    return [error for error in errors if isinstance(error, DeadlockDetected)]


@pytest.mark.parametrize("size", [2, 3, 10])
def test_a_circle_is_found_and_one_of_it_gives_way(
    world: World, name: str, server_side: Observer, size: int
) -> None:
    locks = [Lock(f"{name}:{i}", wait=PATIENCE) for i in range(size)]
    meeting = Meeting(size)
    started = monotonic()
    parties = [party(world, locks[i], locks[(i + 1) % size], meeting) for i in range(size)]
    (victim,) = victims(parties)
    assert monotonic() - started < PATIENCE / 2
    assert size == len(victim.circle)
    assert {lock.name for lock in locks} == {name for wait in victim.circle for name in wait.names}
    assert all(wait.where.partition(":")[0] == __file__ for wait in victim.circle)
    assert all("pid" in wait.who and wait.mode == "exclusive" for wait in victim.circle)
    assert "pid" not in str(victim)
    # SOON when the machine is quiet; the next look would come 2 s later.
    assert float(victim.__notes__[-1].split()[1]) < SOON + 1.9
    assert all(set() == server_side.left_of(lock.name) for lock in locks)


def test_two_upgrades_are_a_deadlock(world: World, name: str) -> None:
    meeting = Meeting(2)

    def upgrade() -> str:
        with Lock(name, mode="shared") as hold:
            meeting.arrive()
            meeting.wait()
            hold.upgrade(wait=PATIENCE)
            return hold.mode

    async def aupgrade() -> str:
        async with Lock(name, mode="shared") as hold:
            meeting.arrive()
            await meeting.await_()
            await hold.aupgrade(wait=PATIENCE)
            return hold.mode

    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(world.run(aupgrade()) if isinstance(world, Tasks) else upgrade())
        except DeadlockDetected as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    (victim,) = [outcome for outcome in outcomes if isinstance(outcome, DeadlockDetected)]
    assert "exclusive" in outcomes
    assert ["upgrade", "upgrade"] == [wait.mode for wait in victim.circle]


def test_a_set_in_a_circle_is_found(world: World, name: str) -> None:
    a, b, c = (f"{name}:{letter}" for letter in "abc")
    meeting = Meeting(2)
    parties = [
        party(world, Lock(a), Lock(b, c, wait=PATIENCE), meeting),
        party(world, Lock(b, mode="shared"), Lock(a, wait=PATIENCE), meeting),
    ]
    (victim,) = victims(parties)
    assert {(a,), (b, c)} == {wait.names for wait in victim.circle}


def test_a_deadlock_is_the_databases_error(name: str) -> None:
    assert issubclass(DeadlockDetected, OperationalError)
    assert "40P01" == DeadlockDetected.sqlstate


def until_all_have_looked(server_side: Observer, name: str, count: int) -> None:
    until(lambda: count <= len(server_side.noted(name)))


def test_a_chain_is_no_circle(world: World, name: str, server_side: Observer) -> None:
    locks = [Lock(f"{name}:{i}", wait=PATIENCE) for i in range(4)]
    last = held(world, locks[3])
    meeting = Meeting(3)
    parties = [party(world, locks[i], locks[i + 1], meeting) for i in range(3)]
    until_all_have_looked(server_side, name, 3)
    world.release(last)
    assert [] == victims(parties)
    assert [] == server_side.noted(name)


def test_a_permit_that_any_holder_may_free_is_no_dead_end(
    world: World, name: str, server_side: Observer
) -> None:
    semaphore = Semaphore(f"{name}:s", 2, wait=PATIENCE)
    other = held(world, semaphore)
    meeting = Meeting(2)
    parties = [
        party(world, semaphore, Lock(f"{name}:l", wait=PATIENCE), meeting),
        party(world, Lock(f"{name}:l"), semaphore, meeting),
    ]
    until_all_have_looked(server_side, name, 2)
    world.release(other)
    assert [] == victims(parties)


def pairs(name: str, chance: random.Random) -> list[tuple[Lock, Lock]]:
    """Two locks each, always in the same order, shared or exclusive."""
    found = []
    for _ in range(30):
        first, second = (f"{name}:{i}" for i in sorted(chance.sample(range(5), 2)))
        modes: Any = chance.choices(["exclusive", "shared"], k=2)
        found.append(
            (
                Lock(first, wait=PATIENCE, mode=modes[0]),
                Lock(second, wait=PATIENCE, mode=modes[1]),
            )
        )
    return found


def hold_in_turn(world: World, work: list[tuple[Lock, Lock]]) -> Future[float]:
    async def tasks() -> float:
        for one, two in work:
            async with one, two:
                pass
        return 0.0

    def blocks() -> float:
        for one, two in work:
            with one, two:
                pass
        return 0.0

    return world.submit(tasks()) if isinstance(world, Tasks) else in_thread(blocks)


def test_random_traffic_in_one_order_is_never_taken_for_a_deadlock(
    world: World, name: str, settings: Any
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "DEADLOCK_TIMEOUT": 0.001}
    chance = random.Random(3)
    assert [] == victims([hold_in_turn(world, pairs(name, chance)) for _ in range(8)])


def test_a_grant_forgets_what_its_waiter_noted_however_soon_that_looked(
    name: str, settings: Any, server_side: Observer
) -> None:
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "DEADLOCK_TIMEOUT": 0.0001}

    def wait_for_it() -> float:
        with Lock(f"{name}:2"), Lock(name, wait=PATIENCE):
            return 0.0

    for _ in range(10):
        with Lock(name):
            waiting, latest = in_thread(wait_for_it), monotonic() + PATIENCE
            while not server_side.noted(name):  # at once: that a wait of 5 ms noted it is the point
                assert monotonic() < latest
        assert waiting.result(PATIENCE) == 0
        assert [] == server_side.noted(name)


def test_a_hold_that_ends_by_itself_is_no_dead_end(world: World, name: str) -> None:
    fleeting = Lock(name, lease=2 * SOON, renew=False)
    first = held(world, fleeting)
    world.release(held(world, Lock(name, wait=PATIENCE)))
    assert first.is_lost


@pytest.mark.filterwarnings("ignore:A hold of lock:ResourceWarning")
def test_a_hold_that_was_dropped_is_no_dead_end(world: World, name: str) -> None:
    """The party that dropped it waits for the other one, which waits for its lease to end."""
    dropped, other = Lock(name, lease=3 * SOON, wait=PATIENCE), Lock(f"{name}:2", wait=PATIENCE)
    kept = Lock(f"{name}:3")  # who holds nothing does not look
    meeting = Meeting(2)

    def block() -> float:
        with kept:
            dropped.acquire()
            meeting.arrive()
            meeting.wait()
            with other:
                return 0.0

    async def task() -> float:
        async with kept:
            await dropped.aacquire()
            meeting.arrive()
            await meeting.await_()
            async with other:
                return 0.0

    drops = world.submit(task()) if isinstance(world, Tasks) else in_thread(block)
    assert [] == victims([party(world, other, dropped, meeting), drops])
