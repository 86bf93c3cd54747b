"""What a worker does with a message of a unique task."""

from __future__ import annotations

from typing import Any

from redis_locks.decorators.queued_messages import QueuedRun
from redis_locks.drivers.base import run_blocking
from redis_locks.locks.lock import Side


def begin_and_die(task: Any, lock: str, message_id: str) -> None:
    """Do what a worker does when it begins to run a message, and nothing after that."""
    run = QueuedRun(task._message(task.unique, lock, message_id))
    run_blocking(run.begin(Side(None)))
    run._stop_renewing()
