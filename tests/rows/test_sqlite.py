"""Transactions of SQLite that begin without the lock of the database."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.transaction import atomic
from django.test import override_settings

from redis_locks.rows import RedisLockQuerySet, lock_rows
from tests.ledger.models import Counter

FIX = '"transaction_mode": "IMMEDIATE" to the "OPTIONS" of DATABASES'


@pytest.fixture(params=[None, "deferred"])
def deferred(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "transaction_mode", request.param)


@pytest.mark.usefixtures("deferred", "transactional_db")
def test_rows_are_not_locked_in_a_deferred_transaction(name: str) -> None:
    row = Counter.objects.create(name=name)

    async def in_a_task() -> None:
        await lock_rows(row).aacquire()

    with atomic():
        for ask in (
            lock_rows(row).acquire,
            lock_rows(row, scope="block", skip_locked=True).acquire,
            RedisLockQuerySet(Counter).select_for_lock().first,
            async_to_sync(in_a_task),
        ):
            with pytest.raises(ImproperlyConfigured, match=FIX):
                ask()
    with lock_rows(row, nowait=True) as found:
        assert [row] == found


@pytest.mark.usefixtures("deferred", "db")
def test_transactions_of_a_test_case_are_nobody_elses_matter(name: str) -> None:
    row = Counter.objects.create(name=name)
    with atomic(), lock_rows(row) as found:
        assert [row] == found


def warnings() -> list[Any]:
    return [each for each in run_checks(tags=["redis_locks"]) if each.id == "redis_locks.W011"]


@pytest.mark.usefixtures("deferred")
def test_a_check_warns_of_it_where_a_model_has_select_for_lock() -> None:
    (warning,) = warnings()
    assert ".objects.select_for_lock() raises" in warning.msg  # of some model; tests make more
    assert FIX in warning.hint
    installed = ["django.contrib.auth", "django.contrib.contenttypes", "redis_locks"]
    with override_settings(INSTALLED_APPS=installed):
        assert [] == warnings()


def test_immediate_transactions_are_right() -> None:
    assert [] == warnings()
