"""One client process: takes a lock again and again for as long as it is told, and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from demo_project.benchmark.conditions import Take
from demo_project.benchmark.figures import WorkerReport
from demo_project.benchmark.subjects import SUBJECTS
from demo_project.benchmark.worker_loop import serve


@dataclass(frozen=True)
class Job:
    """What a client is to do.

    Attributes:
        subject: Which lock it takes.
        using: On which server.
        seconds: For how long.
    """

    subject: str
    using: str | None
    seconds: float


def work(take: Take, seconds: float) -> WorkerReport:
    """Take and release a lock until the time is over; what began in time counts."""
    until = monotonic() + seconds
    tries = 0
    waits_us: list[int] = []
    while (asked := monotonic()) < until:
        with take() as held:
            waits_us.append(round((monotonic() - asked) * 1e6))
        tries += getattr(held, "tries", 1)
    return WorkerReport(tries, waits_us)


class Client:
    """The locks that this process has taken so far."""

    def __init__(self) -> None:
        self._opened: dict[tuple[str, str | None], Take] = {}

    def prepare(self, message: dict[str, Any]) -> Callable[[], WorkerReport]:
        """Return what does a job, once the lock was taken a first time."""
        job = Job(**message)
        subject = SUBJECTS[job.subject]
        lock = (job.subject, job.using)
        if lock not in self._opened:
            take = subject.open(job.using, subject.name)
            # Connects and loads scripts, so that the first acquire that counts is like all others.
            with take():
                pass
            self._opened[lock] = take
        return partial(work, self._opened[lock], job.seconds)


def main() -> None:
    """Serve a `WorkerPool`."""
    serve(sys.stdin, sys.stdout, Client().prepare)
