"""When somebody who did not get a lock should ask again: Retry-After, and the retries of tasks."""

from __future__ import annotations

import pytest

from redis_locks.decorators import task_queues
from redis_locks.decorators.answers import retry_after


def pause(retries: int) -> float:
    """For how many seconds a task waits before it is retried for the next time."""
    return task_queues._pause(retries)


def without_celery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery is not imported."""
    monkeypatch.delitem(task_queues.sys.modules, "celery")
