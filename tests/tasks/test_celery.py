"""Locked Celery tasks: in which order, and what contention leads to. No worker is needed."""

from __future__ import annotations

import functools
import json
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Task, shared_task, signals
from celery.exceptions import Retry

from redis_locks import (
    Lock,
    LockBackendError,
    LockError,
    LockNotAvailable,
    LockTimeout,
    redis_lock,
    run_once,
)
from redis_locks.exceptions import ProtocolMismatch
from redis_locks.testing import assert_locked, assert_released, override_locks
from redis_locks.testing.server import EmbeddedServer
from tests.elsewhere import in_thread
from tests.support.keys import lock_keys
from tests.support.retries import pause, without_celery
from tests.tasks import celery_app
from tests.tasks.celery_app import app


@pytest.fixture
def task(name: str) -> Callable[..., Any]:
    """`shared_task` with a task name that no other test uses."""
    return functools.partial(shared_task, name=f"tests.{name}")


@pytest.fixture
def retries() -> Iterator[list[Retry]]:
    """The retries of all tasks, in order."""
    seen: list[Retry] = []

    def note(reason: Retry, **_: object) -> None:
        seen.append(reason)

    signals.task_retry.connect(note)
    yield seen
    signals.task_retry.disconnect(note)


def test_a_task_above_the_lock_holds_it_while_it_runs(name: str, task: Callable[..., Any]) -> None:
    @task()
    @redis_lock("{name}:{number}")
    def work(name: str, number: int = 1) -> int:
        assert_locked(f"{name}:{number}")
        return number

    assert work.apply((name,), {"number": 7}).get() == 7
    assert work(name) == 1
    assert_released(f"{name}:7")


def test_a_bound_task_gives_itself_to_the_name(name: str, task: Callable[..., Any]) -> None:
    @task(bind=True)
    @redis_lock("{self.request.id}:{name}")
    def work(self: Task, name: str) -> str:
        assert_locked(f"{self.request.id}:{name}")
        return self.request.id

    assert work.apply((name,), task_id="one").get() == "one"


def test_the_run_method_of_a_task_class_can_be_locked(name: str) -> None:
    class Work(app.Task):  # type: ignore[name-defined,misc]
        name = "tests.work_as_a_class"

        @redis_lock("{self.name}:{key}")
        def run(self, key: str) -> bool:
            assert_locked(f"{self.name}:{key}")
            return True

    assert app.register_task(Work()).apply((name,)).get() is True


RIGHT_ORDER = r"""
    @shared_task
    @redis_lock\('account:\{account_id\}'\)
    def charge\(\.\.\.\): \.\.\.
"""


@pytest.mark.parametrize(
    ("made_by", "options"),
    [(shared_task, {}), (shared_task, {"bind": True}), (app.task, {}), (app.task, {"lazy": False})],
    ids=["shared", "bound", "of an app", "made at once"],
)
def test_the_lock_above_the_task_is_refused_with_the_right_order(
    name: str, made_by: Callable[..., Any], options: dict[str, Any]
) -> None:
    def charge(account_id: int) -> None: ...

    with pytest.raises(TypeError, match=RIGHT_ORDER):
        redis_lock("account:{account_id}")(made_by(name=name, **options)(charge))


def test_a_task_hidden_below_another_decorator_is_refused_too(task: Callable[..., Any]) -> None:
    @task()
    def charge(account_id: int) -> None: ...

    @functools.wraps(charge)
    def logged(*args: Any, **kwargs: Any) -> None: ...

    with pytest.raises(TypeError, match=RIGHT_ORDER):
        redis_lock("account:{account_id}")(logged)


def test_a_task_class_is_refused_with_the_method_to_lock() -> None:
    with pytest.raises(TypeError, match=r"@redis_lock\(\)\n +def run\(self, \.\.\.\)"):
        redis_lock()(app.Task)


@override_locks("busy")
def test_on_conflict_raise_fails_the_task_with_an_error_that_pickles(
    task: Callable[..., Any],
) -> None:
    @task()
    @redis_lock("x", wait=0, on_conflict="raise")
    def work() -> None: ...

    result = work.apply()
    assert result.state == "FAILURE"
    assert type(pickle.loads(pickle.dumps(result.result))) is LockNotAvailable  # noqa: S301


@override_locks("busy")
def test_on_conflict_skip_ends_the_task_well_without_running_it(task: Callable[..., Any]) -> None:
    @task()
    @redis_lock("x", on_conflict="skip")
    def work() -> None:
        pytest.fail("it ran")

    result = work.apply()
    assert (result.state, result.result) == ("SUCCESS", None)


@override_locks("busy")
def test_on_conflict_retry_pauses_longer_each_time_until_the_task_s_limit(
    retries: list[Retry], task: Callable[..., Any]
) -> None:
    @task(max_retries=7)
    @redis_lock("x", wait=0, on_conflict="retry")
    def work(a: int, *, b: int) -> None: ...

    result = work.apply((1,), {"b": 2})
    assert (result.state, type(result.result)) == ("FAILURE", LockNotAvailable)
    pauses = [retry.when for retry in retries]
    longest = [1, 2, 4, 8, 16, 32, 60]
    assert len(pauses) == 7
    assert all(top / 2 <= pause <= top for pause, top in zip(pauses, longest, strict=True))
    # Tasks that were refused together do not come back together.
    assert len({pause / top for pause, top in zip(pauses, longest, strict=True)}) == 7
    assert (retries[-1].sig.args, retries[-1].sig.kwargs) == ((1,), {"b": 2})


def test_a_retried_task_runs_once_the_lock_is_free(
    name: str, retries: list[Retry], task: Callable[..., Any]
) -> None:
    hold = in_thread(Lock(name).acquire)

    def release(**_: object) -> None:
        if len(retries) == 2:
            hold.release()

    @task()
    @redis_lock("{name}", wait=0, on_conflict="retry")
    def work(name: str) -> str:
        assert_locked(name)
        return "done"

    signals.task_retry.connect(release)
    try:
        assert work.apply((name,)).get() == "done"
    finally:
        signals.task_retry.disconnect(release)
    assert len(retries) == 2


@override_locks("busy")
def test_a_locked_function_called_by_a_task_queues_the_task_again(
    retries: list[Retry], task: Callable[..., Any]
) -> None:
    @redis_lock("x", wait=0, on_conflict="retry")
    def inner() -> None: ...

    @task(max_retries=1)
    def work() -> None:
        inner()

    assert isinstance(work.apply().result, LockNotAvailable)
    assert len(retries) == 1


@override_locks("busy")
def test_on_conflict_retry_raises_where_nothing_can_be_queued_again(
    retries: list[Retry], task: Callable[..., Any]
) -> None:
    @redis_lock("x", wait=5, on_conflict="retry")
    def function() -> None: ...

    for direct in (function, task()(function)):
        with pytest.raises(LockTimeout):
            direct()
    assert retries == []


@override_locks("busy")
def test_an_eager_task_without_a_limit_raises_instead_of_retrying_for_ever(
    retries: list[Retry], task: Callable[..., Any]
) -> None:
    @task(max_retries=None)
    @redis_lock("x", wait=0, on_conflict="retry")
    def work() -> None: ...

    # As with CELERY_TASK_ALWAYS_EAGER; `delay` would make the app connect to where no server is
    # yet.
    assert type(work.apply().result) is LockNotAvailable
    assert retries == []


DOWN = "unix:///nonexistent/server.sock"


def waits_for_a_lock(make: Callable[..., Any], **options: Any) -> Any:
    @make(**options)
    @redis_lock("x", wait=0, on_conflict="retry", using=DOWN)
    def work() -> None: ...

    return work


def waits_for_a_job(make: Callable[..., Any], **options: Any) -> Any:
    @make(**options)
    @run_once("x", using=DOWN)
    def work() -> None: ...

    return work


@pytest.mark.parametrize(
    "kind", [waits_for_a_lock, waits_for_a_job], ids=lambda kind: kind.__name__
)
def test_an_outage_queues_the_task_again_as_often_as_its_limit_says(
    kind: Callable[..., Any], retries: list[Retry], task: Callable[..., Any]
) -> None:
    work = kind(task, max_retries=2)
    assert type(work.apply().result) is LockBackendError
    assert [LockBackendError] * 2 == [type(retry.exc) for retry in retries]
    longest = [1, 2]
    assert all(top / 2 <= each.when <= top for each, top in zip(retries, longest, strict=True))


def test_a_task_that_an_outage_met_runs_when_the_server_is_back(
    private_server: EmbeddedServer, retries: list[Retry], task: Callable[..., Any]
) -> None:
    @task()
    @redis_lock("x", wait=0, on_conflict="retry", using=private_server.url)
    def work() -> str:
        assert_locked("x", using=private_server.url)
        return "done"

    def restart(**_: object) -> None:
        private_server.restart()

    private_server.kill()
    signals.task_retry.connect(restart)
    try:
        assert "done" == work.apply().get()
    finally:
        signals.task_retry.disconnect(restart)
    assert 1 == len(retries)


def test_another_version_s_lock_queues_the_task_again(
    name: str, client: redis.Redis, retries: list[Retry], task: Callable[..., Any]
) -> None:
    @task(max_retries=1)
    @redis_lock("{name}", wait=0, on_conflict="retry")
    def work(name: str) -> None: ...

    # As another version leaves it: its protocol, and a lease that lasts.
    later = round(time.time() * 1000) + 60_000
    key = lock_keys("redis_locks", 0, name).lock
    client.hset(key, "state", f"99 {later} {later}000 {later}")
    client.pexpireat(key, later)
    assert type(work.apply((name,)).result) is ProtocolMismatch
    assert 1 == len(retries)


def test_an_error_of_the_release_does_not_run_the_task_again(
    private_server: EmbeddedServer, retries: list[Retry], task: Callable[..., Any]
) -> None:
    ran: list[bool] = []

    @task(max_retries=3)
    @redis_lock("x", wait=0, lease=1, on_conflict="retry", using=private_server.url)
    def work() -> None:
        ran.append(True)
        private_server.kill()

    assert isinstance(work.apply().result, LockError)
    assert ([True], []) == (ran, retries)


def test_a_task_goes_on_with_a_hold_that_was_given_away(name: str, client: redis.Redis) -> None:
    hold = Lock(name, wait=0).acquire()
    assert hold
    client.rpush(celery_app.told(name), "go on")
    text = hold.detach()
    for _ in range(2):  # the second is a message that was delivered twice
        celery_app.adopt.apply((name, text)).get()
    said = [json.loads(words) for words in client.lrange(celery_app.said(name), 0, -1)]
    assert [hold.fencing_token] * 2 == [said[0]["adopted"], said[1]["released"]]
    assert "cannot be adopted" in said[2]["lost"]
    assert_released(name)


def test_a_task_that_is_delivered_again_runs_its_job_once(
    name: str, task: Callable[..., Any]
) -> None:
    done: list[int] = []

    @task()
    @run_once("{name}:{number}", store_result=True, done_ttl=60)
    def work(name: str, number: int) -> int:
        done.append(number)
        return number * 2

    outcomes = [work.apply((name, 7), task_id="the same").get() for _ in range(2)]
    assert outcomes == [14, 14]
    assert done == [7]


@override_locks("busy")
def test_on_conflict_retry_raises_without_celery(monkeypatch: pytest.MonkeyPatch) -> None:
    without_celery(monkeypatch)

    @redis_lock("x", wait=0, on_conflict="retry")
    def function() -> None: ...

    with pytest.raises(LockNotAvailable):
        function()


def test_the_pause_stays_within_its_limit_however_often_a_task_was_retried() -> None:
    assert all(30 <= pause(number) <= 60 for number in (6, 100, 10**6))


def test_a_job_that_is_under_way_is_an_error_in_a_function_that_a_task_calls(
    name: str, task: Callable[..., Any], retries: list[Retry]
) -> None:
    once = run_once(name)(lambda: None)

    @task(bind=True)
    def work(self: Task) -> None:
        self.request.is_eager = False  # as in a worker
        once()

    with run_once(name):
        assert LockNotAvailable is type(work.apply().result)
    assert [] == retries


def test_a_job_that_is_under_way_is_an_error_in_an_eager_task(
    name: str, task: Callable[..., Any]
) -> None:
    @task()
    @run_once(name)
    def work() -> None: ...

    with run_once(name):
        assert LockNotAvailable is type(work.apply().result)
        with pytest.raises(LockNotAvailable):
            work()
