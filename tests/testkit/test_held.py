"""`held`: somebody else has a lock, on a server and under `override_locks`."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from redis_locks import (
    Lock,
    LockBackendError,
    LockNotAvailable,
    LockTimeout,
    inspection,
    redis_lock,
    run_once,
)
from redis_locks.rows import lock_rows
from redis_locks.testing import assert_locked, assert_released, held, lose_lock, override_locks
from tests.ledger.models import Counter


@pytest.fixture(params=["server", "granted"])
def locks(request: pytest.FixtureRequest) -> Iterator[str]:
    with override_locks(request.param):
        yield request.param


@redis_lock("{name}", wait=0)
def view(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse("done")


@redis_lock("{name}", wait=0)
async def aview(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse("done")


def status(name: str) -> int:
    answer: HttpResponse = view(RequestFactory().post("/"), name)
    return answer.status_code


def test_code_in_the_same_thread_is_refused(locks: str, name: str) -> None:
    with held(name):
        assert 423 == status(name)
        assert 200 == status(f"{name}:other")
        assert_locked(name)
        with pytest.raises(LockTimeout), Lock(name, wait=0.05):
            pass
    assert 200 == status(name)
    assert_released(name)


def test_the_error_says_who_holds_it(locks: str, name: str) -> None:
    with held(name), pytest.raises(LockNotAvailable, match=r"redis_locks\.testing\.held"):
        Lock(name, wait=0).__enter__()


def test_sets_and_jobs_are_refused(locks: str, name: str) -> None:
    with held(name):
        with pytest.raises(LockNotAvailable), redis_lock("other", name, wait=0):
            pass
        job = run_once(name)
        assert job.acquire() is None


@pytest.mark.django_db(transaction=True)
def test_rows_are_refused_and_skipped(locks: str, name: str) -> None:
    first, second = (Counter.objects.create(name=f"{name}:{number}") for number in range(2))
    with lock_rows(Counter.objects.filter(pk=first.pk)):
        (row,) = [each for each in inspection.names() if each.endswith(f":{first.pk}")]
    with held(row):
        rows = Counter.objects.filter(name__startswith=name).order_by("pk")
        with pytest.raises(LockNotAvailable), lock_rows(rows, nowait=True):
            pass
        with lock_rows(rows, skip_locked=True) as found:
            assert [second.pk] == [each.pk for each in found]


def test_a_shared_one_can_be_shared(locks: str, name: str) -> None:
    with held(name, mode="shared"):
        with Lock(name, mode="shared", wait=0):
            pass
        assert Lock(name).acquire(wait=0) is None


def test_async_code_is_refused(locks: str, name: str) -> None:
    async def run() -> None:
        async with held(name):
            assert 423 == (await aview(RequestFactory().post("/"), name)).status_code
        assert 200 == (await aview(RequestFactory().post("/"), name)).status_code
        with held(name):
            assert await Lock(name).aacquire(wait=0) is None

    asyncio.run(run())


@pytest.mark.django_db(transaction=True)
def test_transactions_of_the_test_do_not_keep_it(locks: str, name: str) -> None:
    with atomic():
        with held(name):
            assert 423 == status(name)
        assert_released(name)


def test_it_can_be_taken_away(locks: str, name: str) -> None:
    with held(name):
        lose_lock(name)
        assert 200 == status(name)


def test_a_lock_that_is_held_cannot_be_held(locks: str, name: str) -> None:
    with Lock(name), pytest.raises(AssertionError, match="held already"), held(name):
        pass
    with held(name), pytest.raises(AssertionError, match="held already"), held(name):
        pass


def test_a_server_that_is_down_holds_nothing(name: str) -> None:
    with override_locks("unavailable"), pytest.raises(LockBackendError), held(name):
        pass


@held("held by a decorator")
def test_a_test_can_be_decorated() -> None:
    assert 423 == status("held by a decorator")


@pytest.mark.usefixtures("redis_server")
@held("held by a class")
class InTestCase(unittest.TestCase):
    def test_it(self) -> None:
        assert 423 == status("held by a class")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"name": 5}, TypeError), ({"name": ""}, ValueError), ({"mode": "update"}, ValueError)],
)
def test_wrong_arguments_are_refused_at_once(
    arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        held(**{"name": "x", **arguments})
