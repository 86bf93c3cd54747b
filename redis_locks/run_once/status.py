"""What is known of a job, for people and programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from redis_locks.run_once.records import Done, Failed, Locked
from redis_locks.values.identity import describe_holder


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A job as it was a moment ago.

    Attributes:
        name: The job.
        state: "new": nothing is known, no attempt or forgotten. "running": an attempt is under
            way. "failed": the last attempt failed or died, another may follow. "exhausted": so,
            and no other follows, by the `max_attempts` of whoever
            asks. "done": it is done.
        attempts: How many attempts have begun.
        result: The stored result when done; None also when none was stored.
        holder: Who runs the attempt under way, as text for people.
        last_error: How the last attempt failed, as text; None if its process died or lost the lock.
    """

    name: str
    state: Literal["new", "running", "failed", "exhausted", "done"]
    attempts: int = 0
    result: Any = None
    holder: str | None = None
    last_error: str | None = None


def status_of(name: str, max_attempts: int, known: Locked | Done | Failed) -> RunStatus:
    """Return the status that the server's answer spells."""
    attempts = known.attempt
    if isinstance(known, Locked):
        return RunStatus(name, "running", attempts, holder=describe_holder(known.claim))
    if isinstance(known, Done):
        return RunStatus(name, "done", attempts, json.loads(known.result or "null"))
    if not attempts:
        return RunStatus(name, "new")
    state: Literal["exhausted", "failed"] = "exhausted" if attempts >= max_attempts else "failed"
    return RunStatus(name, state, attempts, last_error=known.last_error or None)
