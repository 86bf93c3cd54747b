"""A task cancelled anywhere, or a block that is interrupted, leaves the job to the others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context

import pytest
from django.db import connection, transaction

from redis_locks import Attempt, LockNotHeld, run_once
from tests.elsewhere import in_thread
from tests.ledger.models import DoneJob
from tests.run_once.world import AsyncWorkers, BlockingWorkers, Records, begun
from tests.support.interrupts import open_here, renewed, sweep, until_background_is_done
from tests.support.world import PATIENCE


def test_a_job_cancelled_at_random_moments_is_never_held_by_nobody(
    tasks: AsyncWorkers, records: Records, name: str
) -> None:
    job = run_once(name, lease=30, max_attempts=1_000_000)
    chance = random.Random(5)
    phases: list[str] = []
    ended_in = set()

    @job
    async def work() -> None:
        phases.append("body")
        await asyncio.sleep(0)
        phases.append("end")
        raise ValueError("not this time")

    async def repeat() -> None:
        while True:
            phases.append("begin")
            with pytest.raises(ValueError, match="not this time"):
                await work()

    async def cancelled() -> None:
        task = asyncio.create_task(repeat())
        await asyncio.sleep(chance.uniform(0, 0.005))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for _ in range(150):
        tasks.run(cancelled())
        ended_in.update(phases[-1:])
        assert not records.left(name) - {"index"}
    assert {"begin", "end"} <= ended_in


def test_a_cancelled_attempt_is_over_and_the_next_in_line_takes_over_at_once(
    tasks: AsyncWorkers, records: Records, name: str
) -> None:
    started = asyncio.Event()

    @run_once(name, lease=60)
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    running = tasks.submit(work())
    tasks.run(started.wait())
    other = BlockingWorkers()
    next_one = other.start(other.acquire, run_once(name, wait=PATIENCE))
    records.until_waiters(name, 1)
    running.cancel()
    attempt = next_one.result(PATIENCE)
    assert 2 == attempt.number
    assert "CancelledError:" == records.of(name)["outcome"]
    attempt.done()


def test_a_cancelled_waiter_leaves_the_queue(
    tasks: AsyncWorkers, records: Records, name: str
) -> None:
    attempt = begun(tasks, run_once(name))
    waiter = tasks.submit(run_once(name, wait=None).aacquire())
    records.until_waiters(name, 1)
    waiter.cancel()
    records.until_waiters(name, 0)
    tasks.done(attempt)
    assert set() == records.left(name)


def test_cancelling_while_done_is_recorded_does_not_keep_it_from_being_recorded(
    tasks: AsyncWorkers, name: str
) -> None:
    chance = random.Random(6)

    async def cancelled_while_ending(job: run_once) -> None:
        attempt = await job.aacquire()
        ending = asyncio.create_task(attempt.adone())
        await asyncio.sleep(chance.uniform(0, 0.001))
        begun_to_end = attempt._verdict is not None
        ending.cancel()
        await asyncio.wait((ending,))
        if not begun_to_end:
            await attempt.adone()

    for turn in range(60):
        job = run_once(f"{name}:{turn}", lease=30)
        tasks.run(cancelled_while_ending(job))
        assert "done" == tasks.status(job).state


def block(name: str) -> None:
    with run_once(name, lease=30):
        pass


@run_once("{name}", lease=30, store_result=True)
def decorated(name: str) -> int:
    return 1


def in_a_transaction(name: str) -> None:
    with transaction.atomic():
        decorated(name)


@run_once("{name}", lease=30, record=DoneJob)
def recorded(name: str) -> None: ...


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.ci)])
@pytest.mark.parametrize("work", [block, decorated, in_a_transaction, recorded])
def test_no_interrupt_leaves_an_attempt_that_is_renewed_and_another_may_begin_at_once(
    work: Callable[[str], object], step: int, name: str
) -> None:
    names, contexts = [name], [copy_context()]

    def run() -> None:
        names.append(f"{name}:{len(names)}")
        contexts[:] = [copy_context()]  # which may keep what was current
        contexts[0].run(work, names[-1])

    def check(where: str) -> None:
        end_left_transaction()
        with pytest.raises(LockNotHeld):
            contexts[0].run(Attempt.current)
        assert 0 == renewed(names[-1]) == open_here(names[-1]), where
        until_background_is_done()
        assert "running" != run_once(names[-1]).status().state, where

    sweep(run, step, check)


def end_left_transaction() -> None:
    """As Django does by closing the connection: its `atomic` was interrupted at start or end."""
    if connection.in_atomic_block:
        connection.in_atomic_block = connection.needs_rollback = False
        connection.savepoint_ids.clear()
        connection.atomic_blocks.clear()
    if not connection.get_autocommit():
        connection.rollback()
        connection.set_autocommit(True)


def test_a_wait_that_a_task_gives_up_is_no_interrupted_block(
    tasks: AsyncWorkers, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), run_once(name, wait=PATIENCE):
                raise AssertionError

    with run_once(name):
        tasks.run(give_up())
    assert [] == [each.message for each in caplog.records if "interrupted" in each.message]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.ci)])
def test_no_interrupt_of_a_block_in_a_transaction_begun_by_hand_makes_the_job_done(
    step: int, name: str
) -> None:
    """Nor is it done without one: Django does not know when such a transaction ends."""
    names = [name]

    def run() -> None:
        names.append(f"{name}:{len(names)}")
        refused = suppress(transaction.TransactionManagementError)
        with connection.cursor() as cursor:
            try:
                with refused, run_once(names[-1], lease=30):
                    cursor.execute("BEGIN")
            finally:
                if connection.connection.in_transaction:
                    cursor.execute("ROLLBACK")

    def check(where: str) -> None:
        until_background_is_done()
        assert "done" != run_once(names[-1]).status().state, where

    sweep(run, step, check)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ends_as", ["done", "failed"])
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.ci)])
def test_no_other_attempt_starts_before_commit_though_the_end_of_the_block_was_interrupted(
    step: int, ends_as: str, name: str
) -> None:
    names, states = [name], set[str]()

    def run() -> None:
        names.append(f"{name}:{len(names)}")
        job, interrupt = run_once(names[-1], lease=30), None
        with transaction.atomic(), suppress(LookupError):
            began = False
            try:
                with job:
                    began = True
                    if ends_as == "failed":
                        raise LookupError
            except KeyboardInterrupt as error:
                if not began:
                    raise
                interrupt = error
                until_background_is_done()
                assert in_thread(job.acquire) is None
        if interrupt is not None:
            states.add(in_thread(job.status).state)
            raise interrupt

    def check(where: str) -> None:
        assert 0 == renewed(names[-1]) == open_here(names[-1]), where
        end_left_transaction()

    sweep(run, step, check)
    assert {"failed", ends_as} == states
