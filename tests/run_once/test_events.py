"""The events of a job: as methods to override and as signals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.dispatch import Signal

from redis_locks import (
    Lock,
    LockBackendError,
    LockEvent,
    LockLost,
    RunEvent,
    inspection,
    run_once,
    signals,
)
from tests.run_once.world import AsyncWorkers, BlockingWorkers, Records, Workers, begun, died
from tests.support import stored
from tests.support.interrupts import open_here, renewed
from tests.support.world import PATIENCE, until

KINDS = ("acquired", "reacquired", "locked", "done", "exhausted", "error")


class Heard(list[tuple[str, RunEvent]]):
    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self]

    def add(self, kind: str, event: RunEvent) -> None:
        self.append((kind, event))


class Noisy(run_once):
    """Notes its events."""

    def __init__(self, name: str, heard: Heard, **options: Any) -> None:
        super().__init__(name, **options)
        self.heard = heard


for _kind in KINDS:
    setattr(Noisy, _kind, lambda job, event, kind=_kind: job.heard.add(kind, event))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def signalled() -> Iterator[Heard]:
    """What signals of `Noisy` jobs were sent."""
    heard = Heard()
    connected = []
    for kind in KINDS:

        def receive(sender: object, event: RunEvent, kind: str = kind, **_: object) -> None:
            heard.add(kind, event)

        signal = getattr(signals, f"run_{kind}")
        signal.connect(receive, sender=Noisy, weak=False)
        connected.append((signal, receive))
    yield heard
    for signal, receive in connected:
        assert signal.disconnect(receive, sender=Noisy)


def test_a_job_done_at_once_tells_acquired_and_done(
    workers: Workers, name: str, heard: Heard, signalled: Heard
) -> None:
    attempt = begun(workers, Noisy(name, heard, max_attempts=2))
    workers.done(attempt)
    assert ["acquired", "done"] == heard.kinds
    expected = RunEvent(name, 1, 2, fencing_token=attempt.fencing_token)
    assert [expected] * 2 == [event for _, event in heard]
    assert heard == signalled


def test_the_last_attempt_is_told_to_be_the_last(workers: Workers, name: str, heard: Heard) -> None:
    job = Noisy(name, heard, max_attempts=2)
    for _ in range(2):
        workers.fail(begun(workers, job), "broken")
    acquired = [event.last_attempt for kind, event in heard if kind == "acquired"]
    assert [False, True] == acquired


def test_taking_over_tells_how_the_last_attempt_ended(
    workers: Workers, records: Records, name: str, heard: Heard, signalled: Heard
) -> None:
    job = Noisy(name, heard)
    workers.fail(begun(workers, job), ValueError("no paper"))
    died(workers, records, job, name)
    third = begun(workers, job)
    workers.done(third)
    assert [
        *("acquired", "error"),
        *("reacquired", "acquired"),
        *("reacquired", "acquired", "done"),
    ] == heard.kinds
    ends = [event.last_error for kind, event in heard if kind == "reacquired"]
    assert ["ValueError: no paper", None] == ends
    assert heard == signalled


def test_contention_tells_locked_once_and_by_whom_before_waiting(
    workers: Workers, records: Records, name: str, heard: Heard
) -> None:
    attempt = begun(workers, run_once(name, label="the other one"))
    waiting = workers.start(workers.acquire, Noisy(name, heard, wait=PATIENCE))
    records.until_waiters(name, 1)
    assert ["locked"] == heard.kinds
    assert "the other one" in (heard[0][1].holder or "")
    workers.done(attempt)
    assert waiting.result(PATIENCE) is None
    assert ["locked"] == heard.kinds


def test_the_last_failure_and_all_who_come_later_tell_exhausted(
    workers: Workers, name: str, heard: Heard, signalled: Heard
) -> None:
    job = Noisy(name, heard, max_attempts=1)
    error = ValueError("no paper")
    workers.fail(begun(workers, job), error)
    assert ["acquired", "error", "exhausted"] == heard.kinds
    assert error is heard[1][1].error
    assert workers.acquire(job) is None
    assert "exhausted" == heard.kinds[-1]
    assert {"ValueError: no paper"} == {event.last_error for _, event in heard[2:]}
    assert heard == signalled


def test_losing_the_lock_raises_and_tells_error_once_and_never_done(
    workers: Workers, records: Records, name: str, heard: Heard
) -> None:
    job = Noisy(name, heard)
    once = workers.function(job, lambda: records.let_die(name))
    with pytest.raises(LockLost) as caught:
        workers.call(once)
    assert not hasattr(caught.value, "__notes__")
    assert "failed" == workers.status(job).state
    assert ["acquired", "error"] == heard.kinds
    assert isinstance(heard[1][1].error, LockLost)


def test_a_server_that_is_not_there_tells_error(workers: Workers, name: str, heard: Heard) -> None:
    job = Noisy(name, heard, using="unix:///nonexistent/nobody.sock")
    with pytest.raises(LockBackendError):
        workers.acquire(job)
    assert ["error"] == heard.kinds
    assert isinstance(heard[0][1].error, LockBackendError)


def test_an_error_in_a_method_or_a_receiver_is_logged_and_changes_nothing(
    workers: Workers, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(run_once):
        def acquired(self, event: RunEvent) -> None:
            raise RuntimeError("in the method")

    def receive(**_: object) -> None:
        raise RuntimeError("in the receiver")

    signals.run_done.connect(receive, sender=Faulty)
    try:
        job = Faulty(name)
        workers.done(begun(workers, job))
    finally:
        signals.run_done.disconnect(receive, sender=Faulty)
    assert "done" == workers.status(job).state
    assert "acquired() of job" in caplog.text
    assert "in the receiver" in caplog.text


def test_methods_and_receivers_of_async_jobs_may_be_async(
    tasks: AsyncWorkers, name: str, heard: Heard
) -> None:
    class Async(run_once):
        async def acquired(self, event: RunEvent) -> None:
            await asyncio.sleep(0)
            heard.add("method", event)

    async def receive(event: RunEvent, **_: object) -> None:
        await asyncio.sleep(0)
        heard.add("receiver", event)

    signals.run_acquired.connect(receive, sender=Async)
    try:
        tasks.done(begun(tasks, Async(name)))
    finally:
        signals.run_acquired.disconnect(receive, sender=Async)
    assert ["method", "receiver"] == heard.kinds


def test_a_plain_receiver_waits_for_no_thread_that_waits_for_the_job(name: str) -> None:
    """Sync code of asyncio programs has one thread; a receiver in it would wait for it."""
    heard: list[RunEvent] = []
    waits: list[asyncio.Task[bool]] = []

    def wait_for_the_job() -> bool:
        hold = Lock(name, wait=PATIENCE / 2).acquire()
        if hold:
            hold.release()
        return hold is not None

    class Awaited(run_once):
        async def acquired(self, event: RunEvent) -> None:
            # Granted, and not told yet.
            waits.append(asyncio.create_task(sync_to_async(wait_for_the_job)()))
            while (await inspection.alock(name)).waiting == 0:  # type: ignore[union-attr]
                pass

    async def main() -> bool:
        attempt = await Awaited(name).aacquire()
        assert attempt
        await attempt.adone()
        return await waits[0]

    def receive(event: RunEvent, **_: object) -> None:
        heard.append(event)

    signals.run_acquired.connect(receive, sender=Awaited)
    try:
        assert asyncio.run(main())
    finally:
        signals.run_acquired.disconnect(receive, sender=Awaited)
    assert [name] == [event.name for event in heard]


def test_an_async_method_of_a_blocking_job_is_logged_as_a_mistake(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Async(run_once):
        async def acquired(self, event: RunEvent) -> None: ...

    caplog.set_level(logging.ERROR, "redis_locks")
    BlockingWorkers().done(begun(BlockingWorkers(), Async(name)))
    assert "must not be async" in caplog.text


@contextmanager
def receiving(signal: Signal, receive: Callable[[LockEvent], None]) -> Iterator[None]:
    """Connect a receiver."""

    def receiver(event: LockEvent, **_: object) -> None:
        receive(event)

    signal.connect(receiver)
    try:
        yield
    finally:
        signal.disconnect(receiver)


def test_a_receiver_that_takes_longer_than_the_lease_costs_no_job_its_lock(
    workers: Workers, records: Records, name: str
) -> None:
    lock = records.keys(name).lock

    def wait_for_a_renewal(_: LockEvent) -> None:
        before = stored.lease_ends_ms(records.client, lock)
        until(lambda: stored.lease_ends_ms(records.client, lock) > before)

    with receiving(signals.lock_acquired, wait_for_a_renewal):
        once = workers.function(run_once(name, lease=1.2), lambda: None)
        workers.call(once)
    assert "done" == workers.status(run_once(name)).state


def test_a_job_whose_lease_ends_before_all_are_told_does_not_begin(
    workers: Workers, records: Records, name: str, heard: Heard
) -> None:
    lock, ended = records.keys(name).lock, list[LockEvent]()

    def outlast_the_lease(_: LockEvent) -> None:
        until(lambda: not stored.living_holder(records.client, lock))

    job = Noisy(name, heard, lease=0.05, renew=False)
    once = workers.function(job, lambda: pytest.fail("the job must not begin"))
    with (
        receiving(signals.lock_acquired, outlast_the_lease),
        receiving(signals.lock_lost, ended.append),
    ):
        with pytest.raises(LockLost):
            workers.call(once)
        until(lambda: ended)  # by whoever finds it lost first: this call, or the renewal
    assert [name] == [event.name for event in ended]
    assert ["acquired", "error"] == heard.kinds
    second = begun(workers, run_once(name))
    assert 2 == second.number
    workers.done(second)


def test_an_interrupt_in_a_receiver_leaves_nothing_held(records: Records, name: str) -> None:
    released = list[LockEvent]()

    def interrupt(_: LockEvent) -> None:
        raise KeyboardInterrupt

    with (
        receiving(signals.lock_acquired, interrupt),
        receiving(signals.lock_released, released.append),
        pytest.raises(KeyboardInterrupt) as interrupted,
    ):
        run_once(name).acquire()
    assert interrupted.tb  # which refers to the attempt, so that no garbage collector ends it
    assert set() == records.left(name)
    assert (0, 0) == (renewed(name), open_here(name))
    assert [name] == [event.name for event in released]


def test_an_interrupt_in_an_event_leaves_nothing_held(
    workers: Workers, records: Records, name: str
) -> None:
    class Interrupted(run_once):
        def acquired(self, event: RunEvent) -> None:
            raise GeneratorExit

    once = workers.function(Interrupted(name), lambda: None)
    with pytest.raises(GeneratorExit):
        workers.call(once)
    assert set() == records.left(name)
    assert "failed" == workers.status(run_once(name)).state
