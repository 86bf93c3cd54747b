"""Locked tasks of django.tasks, in both orders, sync and async."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from django.test import override_settings

from redis_locks import LockNotAvailable, redis_lock
from redis_locks.testing import assert_locked, assert_released, override_locks

pytest.importorskip("django.tasks", reason="django.tasks came with Django 6.0")

from django.tasks import TaskContext, TaskResult, TaskResultStatus, task

IMMEDIATE = {"default": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}}
pytestmark = pytest.mark.usefixtures("immediate")


@pytest.fixture
def immediate() -> Any:
    with override_settings(TASKS=IMMEDIATE):
        yield


@task
@redis_lock("{key}:{number}", wait=0)
def above(key: str, number: int = 1) -> int:
    assert_locked(f"{key}:{number}")
    return number


@redis_lock("{key}:{number}", wait=0)
@task
def below(key: str, number: int = 1) -> int:
    assert_locked(f"{key}:{number}")
    return number


@task(takes_context=True)
@redis_lock("{key}:{number}", wait=0)
async def async_above(context: TaskContext, key: str, number: int = 1) -> int:
    assert context.attempt == 1
    assert_locked(f"{key}:{number}")
    return number


@redis_lock("{key}:{number}", wait=0)
@task(takes_context=True, queue_name="default")
async def async_below(context: TaskContext, key: str, number: int = 1) -> int:
    assert context.attempt == 1
    assert_locked(f"{key}:{number}")
    return number


@redis_lock(on_conflict="skip")
@task
def skipping() -> str:
    return "ran"


@task
@redis_lock(on_conflict="retry", wait=0)
def retrying() -> str:
    return "ran"


ALL = [above, below, async_above, async_below]
NAMES = ["sync, task above", "sync, lock above", "async, task above", "async, lock above"]


def enqueue(queued: Any, how: str, *args: Any, **kwargs: Any) -> TaskResult:
    if how == "enqueue":
        result: TaskResult = queued.enqueue(*args, **kwargs)
        return result
    return asyncio.run(queued.aenqueue(*args, **kwargs))


@pytest.mark.parametrize("how", ["enqueue", "aenqueue"])
@pytest.mark.parametrize("queued", ALL, ids=NAMES)
def test_a_task_holds_the_lock_while_it_runs(queued: Any, how: str, name: str) -> None:
    result = enqueue(queued, how, name, number=7)
    assert result.errors == []
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 7)
    assert_released(f"{name}:7")


@pytest.mark.parametrize("how", ["enqueue", "aenqueue"])
@pytest.mark.parametrize("queued", ALL, ids=NAMES)
@override_locks("busy")
def test_a_task_that_meets_a_held_lock_fails_with_our_error(
    queued: Any, how: str, name: str
) -> None:
    result = enqueue(queued, how, name)
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is LockNotAvailable


@override_locks("busy")
def test_on_conflict_skip_ends_the_task_well_without_running_it() -> None:
    result = skipping.enqueue()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, None)


@override_locks("busy")
def test_on_conflict_retry_fails_the_task_because_django_has_no_retries() -> None:
    assert retrying.enqueue().errors[0].exception_class is LockNotAvailable


@pytest.mark.parametrize("queued", ALL, ids=NAMES)
def test_a_locked_task_is_still_a_task_of_its_module(queued: Any) -> None:
    assert type(queued) is type(task(above.func))
    assert queued.module_path == f"{__name__}.{queued.name}"
    assert queued.using(queue_name="default").func is queued.func


def test_a_task_can_be_called_directly(name: str) -> None:
    assert below.call(name) == 1
    assert asyncio.run(below.acall(name)) == 1
    assert above.call(name) == 1


@pytest.mark.skipif(
    not hasattr(type(above), "_reconstruct"), reason="Django 6.0 cannot pickle tasks"
)
def test_a_locked_task_pickles() -> None:
    assert pickle.loads(pickle.dumps(below)).func is below.func  # noqa: S301
