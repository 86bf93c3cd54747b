"""What a worker does with a message of a unique task."""

from __future__ import annotations

from redis_locks.decorators.queued_messages import Run
from redis_locks.drivers.base import run_blocking
from redis_locks.locks.lock import Side

__all__ = ["Run", "Side", "run_blocking"]
