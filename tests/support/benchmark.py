"""The parts of `manage.py locks benchmark` and of the demo's comparison."""

from __future__ import annotations

from redis_locks.benchmark import book_locks, subjects
from redis_locks.benchmark.book_locks import (
    compares_and_deletes,
    lua_lock,
    setnx_lock,
    two_commands_lock,
)
from redis_locks.benchmark.figures import Figures, compare, jain_index, percentile
from redis_locks.benchmark.measurement import client_pool
from redis_locks.benchmark.pool import WorkerError, WorkerPool
from redis_locks.benchmark.subjects import NAME, OURS, SUBJECTS, TWO_COMMANDS, USUAL, our_keys
from redis_locks.benchmark.worker import Job

__all__ = [
    "NAME",
    "OURS",
    "SUBJECTS",
    "TWO_COMMANDS",
    "USUAL",
    "Figures",
    "Job",
    "WorkerError",
    "WorkerPool",
    "book_locks",
    "client_pool",
    "compare",
    "compares_and_deletes",
    "jain_index",
    "lua_lock",
    "our_keys",
    "percentile",
    "setnx_lock",
    "subjects",
    "two_commands_lock",
]
