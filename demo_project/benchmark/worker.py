"""One client process: takes a lock again and again for as long as it is told, and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
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
        name: The lock's name; None: the one that all have.
        hold: Seconds to hold the lock each time; 0: release it at once.
    """

    subject: str
    using: str | None
    seconds: float
    name: str | None = None
    hold: float = 0.0


def work(take: Take, seconds: float, hold: float = 0.0) -> WorkerReport:
    """Take and release a lock until the time is over; what began in time counts."""
    until = monotonic() + seconds
    tries = 0
    held_for = 0.0
    waits_us: list[int] = []
    while (asked := monotonic()) < until:
        with take() as held:
            got = monotonic()
            waits_us.append(round((got - asked) * 1e6))
            if hold:
                sleep(hold)
                held_for += max(0.0, min(monotonic(), until) - got)
        tries += getattr(held, "tries", 1)
    return WorkerReport(tries, waits_us, held_for)


class Client:
    """The locks that this process has taken so far."""

    def __init__(self) -> None:
        self._opened: dict[tuple[str, str | None, str], Take] = {}

    def prepare(self, message: dict[str, Any]) -> Callable[[], WorkerReport]:
        """Return what does a job, once the lock was taken a first time."""
        job = Job(**message)
        subject = SUBJECTS[job.subject]
        lock = (job.subject, job.using, job.name or subject.name)
        if lock not in self._opened:
            take = subject.open(*lock[1:])
            # Connects and loads scripts, so that the first acquire that counts is like all others.
            with take():
                pass
            self._opened[lock] = take
        return partial(work, self._opened[lock], job.seconds, job.hold)


def main() -> None:
    """Serve a `WorkerPool`."""
    serve(sys.stdin, sys.stdout, Client().prepare)
