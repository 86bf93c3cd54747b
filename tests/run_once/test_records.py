"""Jobs with a record: a row in the database they work in, which is committed with that work."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections
from django.db.transaction import atomic
from django.test import override_settings
from django.utils import timezone

from redis_locks import AttemptsExhausted, LockLost, ResultNotStored, RunOnceRecord, run_once
from redis_locks.testing import lose_lock
from tests.elsewhere import in_thread
from tests.ledger.models import Counter, DoneJob
from tests.run_once.world import Payment, Records
from tests.support.transactions import at_commit
from tests.support.world import PATIENCE, Threads, until


class Broken(Exception):
    pass


class ToDatabase:
    """A router that sends all models to one database."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_write(self, _model: object, **_hints: object) -> str:
        return self.alias

    db_for_read = db_for_write


class RecordedPayment(Payment):
    """A payment with a record."""

    def __init__(self, database: str, name: str) -> None:
        super().__init__(database, name, record=DoneJob)

    @property
    def records(self) -> int:
        return DoneJob.objects.filter(name=self.name).count()


@pytest.fixture
def payment(database: str, name: str) -> Iterator[RecordedPayment]:
    with override_settings(DATABASE_ROUTERS=[ToDatabase(database)]):
        yield RecordedPayment(database, name)


def test_the_record_is_committed_with_the_work(payment: RecordedPayment) -> None:
    assert [1] == payment.call() == payment.call()
    assert (1, 1, 1) == (payment.runs, payment.rows, payment.records)


def test_a_job_that_redis_has_forgotten_does_not_run_again(
    payment: RecordedPayment, records: Records
) -> None:
    payment.call()
    records.forget(payment.name)
    assert [1] == payment.call()
    assert 1 == payment.runs
    assert "done" == payment.job.status().state
    assert [1] == payment.job.status().result


def test_the_status_is_that_of_the_record(payment: RecordedPayment, records: Records) -> None:
    assert "new" == payment.job.status().state == async_to_sync(payment.job.astatus)().state
    payment.call()
    records.forget(payment.name)
    for status in (payment.job.status(), async_to_sync(payment.job.astatus)()):
        assert ("done", [1]) == (status.state, status.result)


def test_a_job_that_fails_leaves_neither_record_nor_work(payment: RecordedPayment) -> None:
    def fail() -> None:
        payment.work()
        raise Broken

    with pytest.raises(Broken):
        payment.job(fail)()
    assert (0, 0) == (payment.rows, payment.records)
    assert [2] == payment.call()
    assert (1, 1) == (payment.rows, payment.records)


def test_a_transaction_around_it_takes_both_back(payment: RecordedPayment, database: str) -> None:
    with suppress(Broken), atomic(using=database):
        assert [1] == payment.call() == payment.call()
        raise Broken
    assert (0, 0) == (payment.rows, payment.records)
    assert [2] == payment.call()


def blocked(database: str) -> bool:
    """Whether somebody waits for a row of another transaction."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def die_after_commit(database: str, call: Callable[[], object]) -> None:
    """Kill the process at the moment at which its COMMIT has ended."""
    connection: Any = connections[database]
    commit = connection._commit

    def killed() -> None:
        commit()
        os.kill(os.getpid(), signal.SIGKILL)

    connection._commit = killed
    call()


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_process_that_dies_after_commit_has_done_the_job(
    payment: RecordedPayment, database: str, records: Records, attempts: int
) -> None:
    payment.options |= {"max_attempts": attempts, "lease": 60}
    connections.close_all()
    forks = multiprocessing.get_context("fork")
    child = forks.Process(target=die_after_commit, args=(database, payment.call))
    child.start()
    child.join(PATIENCE)
    assert -signal.SIGKILL == child.exitcode
    assert 1 == payment.rows
    records.let_die(payment.name)
    assert [1] == payment.call()
    assert (0, 1) == (payment.runs, payment.rows)


def test_no_attempt_is_left_and_no_record_either(payment: RecordedPayment) -> None:
    payment.options |= {"max_attempts": 1}
    with suppress(Broken), run_once(payment.name, max_attempts=1):
        raise Broken
    with pytest.raises(AttemptsExhausted):
        payment.call()


def test_a_job_whose_lock_was_lost_leaves_the_work_to_the_next(payment: RecordedPayment) -> None:
    def lose() -> None:
        payment.work()
        lose_lock(payment.name)

    with pytest.raises(LockLost):
        payment.job(lose)()
    assert (0, 0) == (payment.rows, payment.records)
    assert [2] == payment.call()


@pytest.mark.postgres
def test_of_two_who_have_the_lock_the_second_finds_the_work_of_the_first(
    postgres: str, name: str, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis loses its data after the guard verified the first's lock, and before its COMMIT."""
    second_one: list[Any] = []

    def overtake() -> None:
        if not second_one:
            records.let_die(name)
            records.forget(name)
            second_one.append(Threads().start(in_thread, second.call))
            until(lambda: blocked(postgres))

    at_commit(monkeypatch, after=overtake)
    with override_settings(DATABASE_ROUTERS=[ToDatabase(postgres)]):
        first, second = (RecordedPayment(postgres, name) for _ in range(2))
        with pytest.raises(LockLost):
            first.call()
        assert [1] == second_one[0].result(PATIENCE)
        assert (0, 1, 1) == (second.runs, second.rows, second.records)


def test_a_result_that_cannot_be_stored_is_an_error_once(payment: RecordedPayment) -> None:
    def work() -> object:
        payment.work()
        return object()

    with pytest.raises(ResultNotStored):
        payment.job(work)()
    assert payment.job(work)() is None
    assert (1, 1) == (payment.rows, payment.records)


def test_without_a_stored_result_later_calls_return_none(
    payment: RecordedPayment, records: Records
) -> None:
    payment.options |= {"store_result": False}
    assert [1] == payment.call()
    records.forget(payment.name)
    assert payment.call() is None


def test_after_done_ttl_the_job_runs_anew(payment: RecordedPayment, records: Records) -> None:
    payment.call()
    records.forget(payment.name)
    DoneJob.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [2] == payment.call()
    assert 1 == payment.records


def test_expired_records_of_other_jobs_are_pruned(payment: RecordedPayment, name: str) -> None:
    for number, minutes in enumerate((-1, -2, 5)):
        expires_at = timezone.now() + timedelta(minutes=minutes)
        DoneJob.objects.create(pk=f"{number}", name=f"{name}:other", expires_at=expires_at)
    payment.call()
    assert 1 == DoneJob.objects.filter(name=f"{name}:other").count()


def test_names_that_differ_in_case_are_different_jobs(payment: RecordedPayment, name: str) -> None:
    other = RecordedPayment(payment.database, f"{name}:a")
    RecordedPayment(payment.database, f"{name}:A").call()
    assert [1] == other.call()


def test_the_job_stands_in_the_function_s_own_transaction(
    payment: RecordedPayment, database: str
) -> None:
    seen = []

    def work() -> None:
        with atomic(using=database):
            payment.work()
        seen.append(in_thread(lambda: payment.records))

    payment.job(work)()
    assert [0] == seen


@pytest.mark.parametrize("wrong", [RunOnceRecord, Counter, "DoneJob", DoneJob()])
def test_a_record_is_a_model_of_the_project(wrong: Any) -> None:
    with pytest.raises(TypeError, match="subclass of RunOnceRecord and not abstract"):
        run_once("a", record=wrong)


def test_a_block_with_a_record_is_refused() -> None:
    job = run_once("a", record=DoneJob)
    with pytest.raises(TypeError, match="for decorated functions"), job:
        pass
    with pytest.raises(TypeError, match="for decorated functions"):
        job.acquire()


def test_an_async_function_with_a_record_is_refused() -> None:
    async def work() -> None: ...

    with pytest.raises(TypeError, match="sync_to_async"):
        run_once("a", record=DoneJob)(work)
