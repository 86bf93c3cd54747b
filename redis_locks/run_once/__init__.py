"""A job that any number of workers try and one does."""

from __future__ import annotations

from redis_locks.run_once.attempts import Attempt
from redis_locks.run_once.events import RunEvent
from redis_locks.run_once.jobs import run_once
from redis_locks.run_once.status import RunStatus

__all__ = ["Attempt", "RunEvent", "RunStatus", "run_once"]
