"""`RunStatus`: the state of a job, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A job as it was a moment ago.

    Attributes:
        name: The job.
        state: "new": there was no attempt, or it is forgotten. "running": an attempt is under way.
            "failed": the last attempt failed or died, and another may follow. "exhausted": it
            failed or died, and by the caller's `max_attempts` no other follows. "done": the job is
            done.
        attempts: How many attempts have begun.
        result: The stored result of a job that is done; None if none was stored.
        holder: The worker of the attempt under way, as text for people.
        last_error: How the last attempt failed, as text; None if its process died or lost the lock.
    """

    name: str
    state: Literal["new", "running", "failed", "exhausted", "done"]
    attempts: int = 0
    result: Any = None
    holder: str | None = None
    last_error: str | None = None
