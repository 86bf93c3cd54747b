"""`RunStatus`: the state of a job, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from redis_locks.run_once.records import Done, Failed, Locked
from redis_locks.run_once.terms import JobTerms
from redis_locks.values.identity import describe_holder


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


def status_of(name: str, terms: JobTerms, known: Locked | Done | Failed) -> RunStatus:
    """Return the status that the server's answer stands for."""
    attempts = known.attempt
    if isinstance(known, Locked):
        return RunStatus(name, "running", attempts, holder=describe_holder(known.claim))
    if isinstance(known, Done):
        return RunStatus(name, "done", attempts, terms.format.read(known.result))
    if not attempts:
        return RunStatus(name, "new")
    state: Literal["exhausted", "failed"] = (
        "exhausted" if attempts >= terms.max_attempts else "failed"
    )
    return RunStatus(name, state, attempts, last_error=known.last_error or None)
