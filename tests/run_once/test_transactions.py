"""A verdict that is passed inside a transaction takes effect when that has ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction
from django.db.transaction import TransactionManagementError, atomic
from django.test import RequestFactory, TestCase

from redis_locks import AlreadyDone, Attempt, LockLost, LockNotHeld, LockTimeout, RunEvent, run_once
from redis_locks.testing import lose_lock, override_locks
from tests.elsewhere import in_thread
from tests.ledger.models import Counter, Entry
from tests.run_once.world import Payment, Records
from tests.support.transactions import at_release, keeps_anything


class Broken(Exception):
    pass


@pytest.fixture
def payment(database: str, name: str) -> Payment:
    return Payment(database, name)


def test_a_job_is_done_after_commit_and_under_way_until_then(payment: Payment) -> None:
    with atomic(using=payment.database):
        assert [1] == payment.call()
        assert "running" == payment.elsewhere()
        assert in_thread(payment.job.acquire) is None
    assert "done" == payment.elsewhere()
    assert [1] == payment.call()
    assert (1, 1) == (payment.runs, payment.rows)


def test_after_a_rollback_the_next_call_does_the_job(payment: Payment) -> None:
    with suppress(Broken), atomic(using=payment.database):
        payment.call()
        raise Broken("a template")
    status = payment.job.status()
    assert ("failed", "rolled back: Broken: a template") == (status.state, status.last_error)
    with atomic(using=payment.database):
        assert [2] == payment.call()
    assert "done" == payment.elsewhere()
    assert (2, 1) == (payment.runs, payment.rows)


def test_a_rollback_without_an_error_is_one_too(payment: Payment) -> None:
    with atomic(using=payment.database):
        payment.call()
        transaction.set_rollback(True, using=payment.database)
    assert "its transaction was rolled back" in str(payment.job.status().last_error)


def test_a_commit_that_the_database_refuses_leaves_the_job_to_the_next(payment: Payment) -> None:
    @atomic(using=payment.database)
    def call_and_refer_to_nothing() -> None:
        payment.call()
        entries = Entry.objects.using(payment.database)
        entries.create(book=payment.name, number=1, counter_id=10**9)

    with pytest.raises(DatabaseError):
        call_and_refer_to_nothing()
    assert "failed" == payment.elsewhere()
    assert [2] == payment.call()
    assert 1 == payment.rows


def test_a_connection_that_is_closed_in_a_transaction_leaves_the_job_to_the_next(
    payment: Payment,
) -> None:
    with suppress(DatabaseError), atomic(using=payment.database):
        payment.call()
        connections[payment.database].close()
    assert [2] == payment.call()
    assert 1 == payment.rows


def test_in_the_same_transaction_a_second_call_gets_the_pending_result(payment: Payment) -> None:
    with atomic(using=payment.database):
        assert [1] == payment.call()
        with atomic(using=payment.database):
            assert [1] == payment.call()
        assert payment.job.acquire() is None
        with pytest.raises(AlreadyDone) as caught, payment.job:
            pass
        assert (1, [1]) == (caught.value.attempt, caught.value.result)
    assert (1, 1) == (payment.runs, payment.rows)


def test_a_rollback_to_a_savepoint_before_the_job_undoes_it(payment: Payment) -> None:
    with atomic(using=payment.database):
        with suppress(Broken), atomic(using=payment.database):
            payment.call()
            raise Broken
        assert "failed" == payment.elsewhere()
        assert [2] == payment.call()
        assert "running" == payment.elsewhere()
    assert "done" == payment.elsewhere()
    assert (2, 1) == (payment.runs, payment.rows)


def test_a_rollback_to_a_savepoint_after_the_job_leaves_it(payment: Payment) -> None:
    with atomic(using=payment.database):
        payment.call()
        with suppress(Broken), atomic(using=payment.database):
            raise Broken
    assert "done" == payment.elsewhere()


def test_a_savepoint_that_was_set_by_hand_counts_as_one_of_atomic(payment: Payment) -> None:
    using = payment.database
    with atomic(using=using):
        before = connections[using].savepoint()
        payment.call()
        after = connections[using].savepoint()
        transaction.savepoint_rollback(after, using=using)
        assert "running" == payment.elsewhere()
        transaction.savepoint_rollback(before, using=using)
        assert "failed" == payment.elsewhere()
        payment.call()
        transaction.savepoint_commit(before, using=using)
    assert "done" == payment.elsewhere()
    assert (2, 1) == (payment.runs, payment.rows)


def test_a_transaction_inside_the_job_is_committed_before_the_job_is_done(payment: Payment) -> None:
    seen = []

    def work() -> None:
        with atomic(using=payment.database):
            payment.work()
        seen.append((payment.elsewhere(), in_thread(lambda: payment.rows)))

    payment.job(work)()
    assert [("running", 1)] == seen
    assert "done" == payment.elsewhere()


def test_done_by_hand_waits_for_the_transaction_around_it(database: str, name: str) -> None:
    job = run_once(name, store_result=True)
    for turn in (1, 2):
        with suppress(Broken), job as attempt:
            with atomic(using=database):
                assert turn == attempt.done(turn)
                with pytest.raises(LockNotHeld):
                    attempt.fail("too late")
                assert "running" == in_thread(job.status).state
                if turn == 1:
                    raise Broken
            assert "done" == in_thread(job.status).state
    assert (2, 2) == (job.status().attempts, job.status().result)


def test_an_attempt_that_fails_in_a_transaction_is_over_when_that_is(payment: Payment) -> None:
    with atomic(using=payment.database):
        attempt = payment.job.acquire()
        attempt.fail("no paper")
        assert "running" == payment.elsewhere()
    status = payment.job.status()
    assert ("failed", "no paper") == (status.state, status.last_error)


def test_another_attempt_may_follow_in_the_same_transaction(payment: Payment) -> None:
    @run_once(payment.name)
    def fail() -> None:
        raise Broken

    with atomic(using=payment.database):
        with suppress(Broken):
            fail()
        assert [1] == payment.call()
    assert (1, 2) == (payment.rows, payment.job.status().attempts)


def test_an_attempt_is_renewed_until_commit(database: str, name: str) -> None:
    payment = Payment(database, name, lease=0.5)
    with atomic(using=database):
        payment.call()
        with pytest.raises(LockTimeout):
            in_thread(run_once(name, wait=1.5).__enter__)
    assert "done" == payment.elsewhere()


def test_a_transaction_is_rolled_back_if_the_lock_of_its_job_is_lost(
    database: str, name: str
) -> None:
    payment = Payment(database, name)

    @atomic(using=database)
    def call_and_lose() -> None:
        payment.call()
        lose_lock(name)

    with pytest.raises(LockLost):
        call_and_lose()
    assert 0 == payment.rows
    assert [2] == payment.call()


def test_a_verdict_that_is_lost_after_commit_lets_the_job_run_again(
    payment: Payment,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What only a record in the database prevents."""

    def lose() -> None:
        records.let_die(payment.name)
        records.forget(payment.name)

    with monkeypatch.context() as patched:
        at_release(patched, before=lose)
        with atomic(using=payment.database):
            payment.call()
    assert "found when its transaction had ended" in caplog.text
    assert [2] == payment.call()
    assert 2 == payment.rows


@pytest.mark.parametrize("committed", [True, False])
def test_sync_code_of_an_async_job_may_end_it_in_a_transaction(
    transactional_db: None, name: str, *, committed: bool
) -> None:
    job = run_once(name)

    def work(attempt: Attempt) -> None:
        with suppress(Broken), atomic():
            Counter.objects.create(name=name)
            attempt.done()
            if not committed:
                raise Broken
        connections.close_all()

    async def run() -> None:
        async with job as attempt:
            await sync_to_async(work)(attempt)

    asyncio.run(run())
    assert ("done" if committed else "failed") == job.status().state


def test_without_a_server_too(database: str, name: str) -> None:
    with override_locks("granted"):
        payment = Payment(database, name)
        with suppress(Broken), atomic(using=database):
            payment.call()
            raise Broken
        with atomic(using=database):
            assert [2] == payment.call() == payment.call()
        assert ("done", 1) == (payment.job.status().state, payment.rows)


def test_events_tell_when_it_has_taken_effect(database: str, name: str) -> None:
    told: list[str] = []

    class Told(run_once[Any]):
        def done(self, event: RunEvent) -> None:
            told.append("done")

        def error(self, event: RunEvent) -> None:
            told.append(str(event.error))

    for ends in (Broken("a template"), None):
        with suppress(Broken), atomic(using=database):
            with Told(name):
                pass
            told.append("in the transaction")
            if ends:
                raise ends
    assert ["in the transaction", "a template", "in the transaction", "done"] == told


def test_without_autocommit_the_job_is_done_at_the_next_commit(payment: Payment) -> None:
    database = payment.database
    transaction.set_autocommit(False, using=database)
    try:
        payment.call()
        transaction.rollback(using=database)
        assert "failed" == payment.elsewhere()
        payment.call()
        assert "running" == payment.elsewhere()
        transaction.commit(using=database)
        assert "done" == payment.elsewhere()
    finally:
        transaction.set_autocommit(True, using=database)


def test_a_transaction_begun_by_hand_is_refused(payment: Payment) -> None:
    with connections[payment.database].cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            with pytest.raises(TransactionManagementError, match="atomic"):
                payment.call()
            assert "new" == payment.elsewhere()
        finally:
            cursor.execute("ROLLBACK")

        @run_once(payment.name)
        def begin() -> None:
            cursor.execute("BEGIN")

        try:
            with pytest.raises(TransactionManagementError, match="atomic"):
                begin()
            assert "failed" == payment.elsewhere()
        finally:
            cursor.execute("ROLLBACK")


@pytest.mark.postgres
@pytest.mark.parametrize("committed", [True, False])
def test_of_several_databases_all_must_commit(
    postgres: str, transactional_db: None, name: str, *, committed: bool
) -> None:
    payment = Payment("default", name)
    with suppress(Broken), atomic(using=postgres):
        with atomic():
            payment.call()
        assert "running" == payment.elsewhere()
        if not committed:
            raise Broken
    assert ("done" if committed else "failed") == payment.elsewhere()
    assert 1 == payment.rows


def test_a_request_that_is_rolled_back_leaves_the_job_to_the_next(
    monkeypatch: pytest.MonkeyPatch, transactional_db: None, name: str
) -> None:
    from django.core.handlers.base import BaseHandler

    payment = Payment("default", name)

    def view(request: object) -> list[int]:
        answer = payment.call()
        if payment.runs == 1:
            raise Broken
        return list(answer)

    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    handled = BaseHandler().make_view_atomic(view)
    with pytest.raises(Broken):
        handled(RequestFactory().post("/"))
    assert [[2], [2]] == [handled(RequestFactory().post("/")) for _ in range(2)]
    assert (2, 1) == (payment.runs, payment.rows)


class InTestCase(TestCase):
    """Its own transaction does not count."""

    def tearDown(self) -> None:
        assert not keeps_anything("default")

    def test_outside_the_code_s_own_transactions_a_job_is_done_at_once(self) -> None:
        payment = Payment("default", "testcase:at once")
        payment.call()
        assert "done" == payment.elsewhere()

    def test_the_outermost_transaction_of_the_code_counts(self) -> None:
        for savepoint in (True, False):
            payment = Payment("default", f"testcase:outermost:{savepoint}")
            with suppress(Broken), atomic(savepoint=savepoint), atomic():
                payment.call()
                assert "running" == payment.elsewhere()
                if savepoint:
                    raise Broken
            assert ("failed" if savepoint else "done") == payment.elsewhere()
