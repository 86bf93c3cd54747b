"""Task decorators beneath ours are refused: their queue would run the function without the lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks import Semaphore, optimistic, redis_lock, run_once
from redis_locks.testing import override_locks


def work(made: Callable[[], Any]) -> Callable[..., Any]:
    """Return a new function: some decorators change what they decorate."""

    def blocking(number: int) -> int:
        return number

    async def asynchronous(number: int) -> int:
        return number

    return asynchronous if made is of_arq else blocking


def of_huey() -> Any:
    return pytest.importorskip("huey").MemoryHuey("w").task()


def of_huey_periodic() -> Any:
    huey = pytest.importorskip("huey")
    return huey.MemoryHuey("w").periodic_task(huey.crontab())


def of_taskiq() -> Any:
    return pytest.importorskip("taskiq").InMemoryBroker().task


def of_procrastinate() -> Any:
    app = pytest.importorskip("procrastinate").App
    connector = pytest.importorskip("procrastinate.testing").InMemoryConnector()
    return app(connector=connector).task


def of_arq() -> Any:
    return pytest.importorskip("arq.worker").func


def of_dramatiq() -> Any:
    broker = pytest.importorskip("dramatiq.brokers.stub").StubBroker()
    return pytest.importorskip("dramatiq").actor(broker=broker)


def of_rq() -> Any:
    job = pytest.importorskip("rq.decorators").job
    return job("default", connection=object())


def of_celery() -> Any:
    # A shared one would be registered with the app of other tests, too.
    return pytest.importorskip("celery").Celery(set_as_current=False).task(shared=False)


MAKERS = [
    of_huey,
    of_huey_periodic,
    of_taskiq,
    of_procrastinate,
    of_arq,
    of_dramatiq,
    of_rq,
    of_celery,
]
pytestmark = pytest.mark.parametrize("made", MAKERS)


@pytest.mark.parametrize(
    "ours",
    [
        redis_lock("a lock"),
        Semaphore("some", 2),
        run_once("a job"),
        redis_lock(),
        optimistic(watch="a"),
    ],
    ids=["redis_lock", "Semaphore", "run_once", "unnamed", "optimistic"],
)
def test_a_task_decorator_beneath_ours_is_refused(made: Callable[[], Any], ours: Any) -> None:
    function = work(made)
    name = function.__name__  # which taskiq changes
    task = made()(function)
    with pytest.raises(TypeError, match=rf"(?s)the task {name}: .* Write the task decorator above"):
        ours(task)


@override_locks("granted")
def test_a_task_decorator_above_ours_is_right(made: Callable[[], Any]) -> None:
    made()(redis_lock("a lock:{number}")(work(made)))
