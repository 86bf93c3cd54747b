"""One client process: takes a lock again and again for as long as it is told, and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import django

from redis_locks.benchmark.figures import WorkerReport
from redis_locks.benchmark.serving import serve
from redis_locks.benchmark.subjects import SUBJECTS, Take


@dataclass(frozen=True)
class Job:
    """Which lock a client is to take, on which server, and for how many seconds."""

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
        self._opened: dict[str, Take] = {}

    def prepare(self, message: dict[str, Any]) -> Callable[[], WorkerReport]:
        """Return what does a job, once the lock was taken a first time."""
        job = Job(**message)
        if job.subject not in self._opened:
            subject = SUBJECTS[job.subject]
            take = subject.open(job.using, subject.name)
            # Connects and loads scripts, so that the first acquire that counts is like all others.
            with take():
                pass
            self._opened[job.subject] = take
        return partial(work, self._opened[job.subject], job.seconds)


if __name__ == "__main__":
    django.setup()
    serve(sys.stdin, sys.stdout, Client().prepare)
