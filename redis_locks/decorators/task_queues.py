"""What locked tasks need of Celery and of django.tasks; neither has to be installed."""

from __future__ import annotations

import dataclasses
import inspect
import random
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeVar

from redis_locks.exceptions import LockError, LockNotAvailable

FIRST_PAUSE = 1.0
"""Seconds until a task that met a held lock runs again; twice as long each further time."""

LONGEST_PAUSE = 60.0

_TASK_VERBS = (
    *("apply_async", "delay", "enqueue", "send_with_options"),  # Celery, RQ, django.tasks, Dramatiq
    *("call_local", "kiq", "defer_async", "keep_result_s"),  # Huey, taskiq, procrastinate, arq
)
"""What tasks have and functions have not."""

_OPERATION = "_ninja_operation"
"""What django-ninja gives a function that it has made an operation of."""


class DjangoTask(Protocol):
    """What ``django.tasks.task`` makes of a function."""

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""

    @property
    def takes_context(self) -> bool:
        """Whether it gets the context of the run."""


DjangoTaskT = TypeVar("DjangoTaskT", bound=DjangoTask)


class WrongOrder(TypeError):
    """`redis_lock` stands above a task decorator; what the queue runs would not be locked.

    Attributes:
        problem: What is wrong, in one line.
        advice: How to put it right, with the source text.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)
        self.problem = problem
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


def requeue(error: LockError) -> NoReturn:
    """Have the task that runs here, which did not get its lock, run again later.

    By the means of its own queue.

    In a Celery worker that is ``retry``: with a jittered pause that doubles each time, as
    often as the task's ``max_retries`` says. Anywhere else there is no such means. Nor is there for
    an eager task without a limit, which would run again inside itself until the stack is full.

    Raises:
        Retry: Celery's; the task is queued again.
        LockError: `error`: there is no task, it was called directly, or it has been
            retried often enough, or is eager and has no limit.
    """
    task = _running_task()
    if task is None or (task.request.is_eager and task.max_retries is None):
        raise error
    raise task.retry(exc=error, countdown=_pause(task.request.retries or 0))


def requeue_uncounted(error: LockNotAvailable) -> NoReturn:
    """Have the Celery task that runs here run again, however often.

    The wait has an end: the holder's.

    Its ``max_retries`` are left for failures of its own. The pause is half to all of what is left
    of the holder's lease, so that a dead holder is followed soon.

    Raises:
        Retry: Celery's; the task is queued again.
        LockNotAvailable: `error`: no worker runs a Celery task here, or it is eager.
    """
    task = _running_task()
    if task is None or task.request.is_eager:
        raise error
    longest = min(LONGEST_PAUSE, max(2 * FIRST_PAUSE, error.retry_after or 0.0))
    task.request.retries -= 1  # which `retry` counts up again
    raise task.retry(exc=error, countdown=_jittered(longest))


def is_run_by_a_task(function: Callable[..., Any]) -> bool:
    """Return whether the Celery task that runs here is made of `function`.

    The function may be decorated further.
    """
    task = _running_task()
    if task is None:
        return False
    # `autoretry_for` puts a function of its own around the task's.
    run = getattr(task, "_orig_run", task.run)
    while run is not None and run is not function:
        run = getattr(run, "__func__", None) or getattr(run, "__wrapped__", None)
    return run is not None


def _running_task() -> Any:
    """Return the Celery task whose message this thread works on; None if there is none."""
    # Not imported here: a process that runs a Celery task has done that already.
    task = getattr(sys.modules.get("celery"), "current_task", None)
    return task if task and not task.request.called_directly else None


def _pause(retries: int) -> float:
    return _jittered(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(retries, 32)))


def _jittered(longest: float) -> float:
    # Jitter: tasks that were refused together should not come back together.
    return random.uniform(longest / 2, longest)  # noqa: S311 - no secret


def is_django_task(function: object) -> bool:
    """Whether ``django.tasks.task`` made this, or its backport.

    The backport for Django before 6.0 is ``django_tasks``.
    """
    # Not imported here: a caller that has made one has imported it.
    modules = map(sys.modules.get, ("django.tasks.base", "django_tasks.base"))
    return any(isinstance(function, each.Task) for each in modules if each is not None)


def with_function(task: DjangoTaskT, function: Callable[..., Any]) -> DjangoTaskT:
    """The same django.tasks task, but running ``function``."""
    return dataclasses.replace(task, func=function)  # type: ignore[type-var]  # a dataclass in fact


def refuse_task(function: Callable[..., Any], decorator: str, source: str) -> None:
    """Raise if ``function`` is a task, or wraps one.

    Its queue would run the function inside, undecorated.

    An operation of django-ninja is refused alike. Tasks of django-q2 are plain functions, which can
    be decorated.

    Args:
        function: What is to be decorated.
        decorator: The name of the decorator.
        source: The decorator as source text.

    Raises:
        WrongOrder: It is; the text shows the right order.
    """
    if hasattr(function, _OPERATION):
        name = getattr(function, "__name__", "operation")
        raise WrongOrder(
            f"{decorator} cannot decorate the operation {name}: django-ninja would run the "
            f"function inside, without {decorator}.",
            f"Write the operation's decorator above:\n\n    @api.post(...)\n    @{source}\n    "
            f"def {name}(...): ...\n",
        )
    task = inspect.unwrap(function, stop=_is_task)
    if not _is_task(task):
        return
    if inspect.isclass(task):
        raise WrongOrder(
            f"{decorator} cannot decorate the task class {task.__name__}.",
            "Decorate its method:\n\n"
            f"    class {task.__name__}(...):\n"
            f"        @{source}\n"
            "        def run(self, ...): ...\n",
        )
    inside = getattr(task, "func", None) or getattr(task, "fn", None)  # Huey's, and Dramatiq's
    named = getattr(task, "__name__", None) or getattr(inside, "__name__", None)
    name = str(named or getattr(task, "name", "work"))
    name = name.removesuffix("__taskiq_original")  # taskiq renames the function inside
    of_task = "shared_task" if hasattr(task, "apply_async") else "task"
    raise WrongOrder(
        f"{decorator} cannot decorate the task {name}: its queue would run the function inside, "
        f"without {decorator}.",
        "Write the task decorator above:\n\n"
        f"    @{of_task}\n"
        f"    @{source}\n"
        f"    def {name}(...): ...\n",
    )


def _is_task(function: object) -> bool:
    return any(hasattr(function, verb) for verb in _TASK_VERBS)
