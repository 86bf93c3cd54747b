"""`override_locks` reaches all that locks, and "unavailable" is a server that is down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio as aioredis
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from redis.exceptions import LockNotOwnedError

from redis_locks import (
    AttemptsExhausted,
    Lock,
    LockBackendError,
    LockLost,
    LockNotAvailable,
    LockTimeout,
    Semaphore,
    TooMuchContention,
    compat,
    inspection,
    optimistic,
    redis_lock,
    run_once,
)
from redis_locks.rows import lock_rows
from redis_locks.testing import assert_locked, assert_released, override_locks
from tests.ledger.models import Counter
from tests.run_once.conftest import workers
from tests.run_once.world import Workers

__all__ = ["workers"]

NOBODY = "unix:///nonexistent/nobody-listens.sock"


@pytest.fixture(autouse=True)
def no_server() -> Any:
    with override_settings(REDIS_LOCKS={"CONNECTION": NOBODY}):
        yield


# run_once


def test_a_job_is_done_once(workers: Workers) -> None:
    calls = []

    def work() -> int:
        calls.append(1)
        assert_locked("job")
        return 7

    job = run_once("job", store_result=True)
    once = workers.function(job, work)
    with override_locks("granted"):
        assert [7, 7] == [workers.call(once), workers.call(once)]
        assert ("done", 1) == (workers.status(job).state, workers.status(job).attempts)
        assert_released("job")
    with override_locks("granted"):
        assert "new" == workers.status(job).state
    assert [1] == calls


@override_locks("granted")
def test_a_job_that_fails_is_tried_again_and_not_for_ever(workers: Workers) -> None:
    job = run_once("job", max_attempts=2)

    def work() -> None:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            workers.call(workers.function(job, work))
    with pytest.raises(AttemptsExhausted, match="ZeroDivisionError"):
        workers.call(workers.function(job, work))


@override_locks("busy")
def test_a_busy_job_is_somebody_else_s(workers: Workers) -> None:
    with pytest.raises(LockNotAvailable):
        workers.call(workers.function(run_once("job"), lambda: None))
    with pytest.raises(LockTimeout):
        workers.call(workers.function(run_once("job", wait=5), lambda: None))
    assert workers.call(workers.function(run_once("job", on_conflict="skip"), lambda: None)) is None
    assert "running" == workers.status(run_once("job")).state


@override_locks("lost")
def test_a_lost_job_is_not_done(workers: Workers) -> None:
    with pytest.raises(LockLost):
        workers.call(workers.function(run_once("job"), lambda: None))
    assert "failed" == workers.status(run_once("job")).state


# optimistic and compat


@pytest.mark.parametrize(
    ("outcome", "error"), [("busy", TooMuchContention), ("unavailable", LockBackendError)]
)
def test_optimistic_transactions_fail(outcome: Any, error: type[Exception]) -> None:
    with override_locks(outcome):
        with pytest.raises(error, match="Nothing was written"):
            optimistic.run(lambda pipe: pipe.get("x"), "x")
        with pytest.raises(error):
            asyncio.run(optimistic.arun(lambda pipe: pipe.get("x"), "x"))


def compat_lock(*, timeout: float | None = 5) -> compat.Lock:
    return compat.Lock(redis.Redis.from_url(NOBODY), "x", blocking_timeout=timeout)


async def lock_async() -> bool:
    client = aioredis.Redis.from_url(NOBODY)
    lock = compat.AsyncLock(client, "x", blocking_timeout=5)
    if acquired := await lock.acquire():
        await lock.release()
    return acquired


def test_compat_locks_are_granted_busy_lost_and_unavailable() -> None:
    with override_locks("granted"):
        with compat_lock():
            pass
        assert asyncio.run(lock_async())
    with override_locks("busy"):
        assert not compat_lock().acquire()
        assert not asyncio.run(lock_async())
        with pytest.raises(RuntimeError, match="for ever"):
            compat_lock(timeout=None).acquire()
    with override_locks("lost"), pytest.raises(LockNotOwnedError), compat_lock():
        pass
    with override_locks("unavailable"):
        with pytest.raises(redis.ConnectionError):
            compat_lock().acquire()
        with pytest.raises(redis.ConnectionError):
            asyncio.run(lock_async())


# unavailable


@redis_lock("x")
def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


@override_locks("unavailable")
def test_a_server_that_is_down_answers_nothing(workers: Workers) -> None:
    for lock in (Lock("x"), Lock("x", wait=0), Semaphore("x", 2), Lock("x", "y", wait=None)):
        with pytest.raises(LockBackendError, match="nothing answers"):
            lock.acquire()
    with pytest.raises(LockBackendError):
        inspection.locks()
    with pytest.raises(LockBackendError):
        workers.call(workers.function(run_once("job"), lambda: None))


@override_locks("unavailable")
async def in_a_task() -> None:
    async with Lock("x"):
        pass


def test_async_code_finds_it_down_too() -> None:
    with pytest.raises(LockBackendError, match="nothing answers"):
        asyncio.run(in_a_task())


@pytest.mark.django_db
@override_locks("unavailable")
def test_rows_find_it_down_too() -> None:
    row = Counter.objects.create(name="x")
    with pytest.raises(LockBackendError), lock_rows(row):
        pass


# The marker


@pytest.mark.override_locks("busy")
class TestMarker:
    def test_it_decides_for_all_tests_of_a_class(self) -> None:
        assert 423 == view(RequestFactory().get("/")).status_code

    @pytest.mark.override_locks("granted")
    def test_the_one_nearest_to_the_test_counts(self) -> None:
        assert 200 == view(RequestFactory().get("/")).status_code
