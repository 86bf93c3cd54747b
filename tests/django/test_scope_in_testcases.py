"""Transactions of test cases never commit: code under test behaves as if they were not there."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.db import connection, transaction
from django.db.models.signals import post_delete
from django.db.transaction import TransactionManagementError, atomic
from django.test import TestCase

from redis_locks import Lock, LockLost
from tests.django.transactions import increment, keeping, take, values
from tests.elsewhere import is_free
from tests.ledger.models import NotedCounter
from tests.support import stored
from tests.support.transactions import keeps_anything
from tests.support.world import keys_of


def fresh(name: str, **options: Any) -> Lock:
    return Lock(f"testcase:{name}", wait=0, **options)


class InTestCase(TestCase):
    def tearDown(self) -> None:
        assert not keeps_anything("default")

    def test_outside_the_code_s_own_transactions_a_hold_ends_with_its_block(self) -> None:
        with fresh("block") as hold:
            assert not hold.kept
        assert is_free("testcase:block")

    def test_scope_transaction_is_refused_as_it_would_be_in_production(self) -> None:
        with pytest.raises(TransactionManagementError):
            fresh("refused", scope="transaction").acquire()

    def test_the_outermost_transaction_of_the_code_keeps_and_releases(self) -> None:
        for _ in range(2):
            with keeping("testcase:kept"), atomic(), fresh("kept", scope="transaction"):
                pass

    def test_other_things_to_do_after_commit_are_captured_without_ours(self) -> None:
        found: list[bool] = []
        with self.captureOnCommitCallbacks(execute=True) as callbacks, atomic():
            take(fresh("captured"))
            transaction.on_commit(lambda: found.append(is_free("testcase:captured")))
        assert 1 == len(callbacks)
        assert [True] == found

    def test_a_transaction_without_savepoint_releases_as_well(self) -> None:
        # As Django's own obj.delete() opens it.
        for _ in range(2):
            with keeping("testcase:no savepoint", savepoint=False), atomic():
                take(fresh("no savepoint", scope="transaction"))
            assert not keeps_anything("default")
            assert type(connection.atomic_blocks) is list

    def test_an_error_in_a_transaction_without_savepoint_releases_too(self) -> None:
        with keeping("testcase:no savepoint"):
            with pytest.raises(ZeroDivisionError), atomic(savepoint=False):
                take(fresh("no savepoint"))
                raise ZeroDivisionError
            transaction.set_rollback(False)  # the outer one is to be rolled back
        with pytest.raises(ZeroDivisionError), atomic(savepoint=False):
            take(fresh("no savepoint"))
            raise ZeroDivisionError
        assert is_free("testcase:no savepoint")
        transaction.set_rollback(False)

    def test_a_lock_that_a_signal_takes_in_a_deletion_is_free_after_it(self) -> None:
        def handler(**_: object) -> None:
            with fresh("signal") as hold:
                assert hold.kept

        post_delete.connect(handler, sender=NotedCounter)
        try:
            NotedCounter.objects.create(name="signal").delete()
        finally:
            post_delete.disconnect(handler, sender=NotedCounter)
        assert is_free("testcase:signal")

    def test_a_hold_in_a_capture_without_a_transaction_to_end_is_released_by_it(self) -> None:
        with self.captureOnCommitCallbacks(execute=True), atomic(savepoint=False):
            for _ in range(2):
                take(fresh("outermost without savepoint"))
        assert is_free("testcase:outermost without savepoint")
        with atomic(), fresh("outermost without savepoint"):
            pass


@pytest.mark.django_db
def test_pytest_django_s_transactions_are_recognised(name: str) -> None:
    with Lock(name) as hold:
        assert not hold.kept
    assert is_free(name)
    with keeping(name), Lock(name):
        increment("default", name)
    assert [1] == values("default", name)
    assert not keeps_anything("default")


@pytest.mark.django_db
def test_the_commit_guard_works_in_a_test_case(name: str, client: redis.Redis) -> None:
    with pytest.raises(LockLost), atomic():
        with Lock(name):
            increment("default", name)
        stored.drop_holder(client, keys_of(name).lock)
    assert [] == values("default", name)
    with atomic():
        increment("default", name)
    assert [1] == values("default", name)
    assert not keeps_anything("default")
