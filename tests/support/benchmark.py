"""The parts of `manage.py benchmark` and of the demo's comparison."""

from __future__ import annotations

from demo_project.benchmark import book_locks, subjects
from demo_project.benchmark.book_locks import (
    compares_and_deletes,
    lua_lock,
    setnx_lock,
    two_commands_lock,
)
from demo_project.benchmark.figures import Figures, compare, jain_index, percentile
from demo_project.benchmark.pool import WorkerError, WorkerPool
from demo_project.benchmark.subjects import NAME, OURS, SUBJECTS, TWO_COMMANDS, USUAL, our_keys
from demo_project.benchmark.worker import Job
