"""What an experiment on the page of the problems does and finds, and back from JSON."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import redis

from demo_project.bank.background import Found, Show, find_experiment, start_experiment
from demo_project.bank.processes import Event

from .experiment import Course, run_problem
from .lost_replies import LOST_REPLIES, Count, count_lost_replies


def start_problem(conn: redis.Redis, name: str) -> uuid.UUID:
    """Start an experiment and return the id of its result.

    Raises:
        Busy: Another experiment is under way.
        LockBackendError: Redis could not be asked.
    """
    return start_experiment(conn, name, _work(conn, name))


def find_run(conn: redis.Redis, run_id: uuid.UUID) -> dict[str, Any] | None:
    """Return a run as `find_experiment` does, with its ``courses`` or ``counts`` once it has ended."""
    run = find_experiment(conn, run_id)
    if run is None:
        return None
    run["counts"] = [Count(**count) for count in run.get("counts", ())]
    run["courses"] = [
        Course(**{**course, "events": tuple(Event(**event) for event in course["events"])})
        for course in run.get("courses", ())
    ]
    return run


def _work(conn: redis.Redis, name: str) -> Callable[[Show], Found]:
    def work(_show: Show) -> Found:
        if name == LOST_REPLIES.name:
            return {"counts": [asdict(count) for count in count_lost_replies(conn)]}
        return {"courses": [asdict(course) for course in run_problem(conn, name)]}

    return work
