"""A process that takes one lock again and again: by itself, with threads, or with tasks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

import redis.asyncio

from demo_project.benchmark.conditions import LEASE, WAIT, Take
from demo_project.benchmark.subjects import OURS, SUBJECTS, Subject
from demo_project.benchmark.worker_loop import serve
from tests.benchmarks.bare import BARE

LOCKS: Final[Mapping[str, Subject]] = {**SUBJECTS, BARE.key: BARE}

WARM_SECONDS = 0.1
"""Everybody takes the lock for so long at first: it connects all, and loads scripts."""

AsyncTake = Callable[[], AbstractAsyncContextManager[object]]


@dataclass(frozen=True)
class Job:
    """What a process is to do.

    Attributes:
        subject: Which kind of lock it takes.
        name: The lock's name.
        using: On which server.
        seconds: For how long.
        hold: Seconds to hold the lock each time; 0: release it at once.
        threads: How many take it; of one, it is the main thread.
        tasks: How many tasks of the main thread take it instead; 0: none.
    """

    subject: str
    name: str
    using: str
    seconds: float
    hold: float = 0.0
    threads: int = 1
    tasks: int = 0


Turns = tuple[int, Sequence[int]]
"""How often a thread or task was granted the lock in time, and its waits in microseconds.

The last wait may have ended too late to count as an acquire.
"""


@dataclass(frozen=True)
class Report:
    """What each thread or task did."""

    turns: Sequence[Turns]


def _redis_py(using: str, name: str) -> AsyncTake:
    client = redis.asyncio.Redis.from_url(using)
    return lambda: client.lock(name, timeout=LEASE, blocking_timeout=WAIT)


ASYNC: Final[Mapping[str, Callable[[str, str], AsyncTake]]] = {
    OURS: SUBJECTS[OURS].open,
    "redis-py": _redis_py,
}
"""What opens a lock for tasks, by subject."""


class Crews:
    """Does jobs with the locks that it has opened so far.

    Args:
        runner: Runs tasks, those of all jobs in one event loop.
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._opened: dict[Job, Callable[[float], Report]] = {}

    def prepare(self, message: dict[str, Any]) -> Callable[[], Report]:
        """Return what does a job, once everybody has taken the lock."""
        job = Job(**message)
        kind = replace(job, seconds=0.0)
        if kind not in self._opened:
            self._opened[kind] = self._tasks(job) if job.tasks else _threads(job)
            self._opened[kind](WARM_SECONDS)
        return partial(self._opened[kind], job.seconds)

    def _tasks(self, job: Job) -> Callable[[float], Report]:
        take = ASYNC[job.subject](job.using, job.name)

        async def run(seconds: float) -> Report:
            return Report(await asyncio.gather(*(awork(take, seconds) for _ in range(job.tasks))))

        return lambda seconds: self._runner.run(run(seconds))


def _threads(job: Job) -> Callable[[float], Report]:
    takes = [LOCKS[job.subject].open(job.using, job.name) for _ in range(job.threads)]

    def run(seconds: float) -> Report:
        each = partial(work, seconds=seconds, hold=job.hold)
        if job.threads == 1:
            return Report([each(takes[0])])
        with ThreadPoolExecutor(job.threads) as threads:
            return Report([*threads.map(each, takes)])

    return run


def work(take: Take, seconds: float, hold: float = 0.0) -> Turns:
    """Take a lock, and release it after `hold` seconds, until the time is over."""
    got = until = monotonic() + seconds
    waits_us: list[int] = []
    while (asked := monotonic()) < until:
        with take():
            got = monotonic()
            waits_us.append(round((got - asked) * 1e6))
            if hold:
                sleep(hold)
    return len(waits_us) - (got > until), waits_us


async def awork(take: AsyncTake, seconds: float) -> Turns:
    """Do the same in a task."""
    got = until = monotonic() + seconds
    waits_us: list[int] = []
    while (asked := monotonic()) < until:
        async with take():
            got = monotonic()
            waits_us.append(round((got - asked) * 1e6))
    return len(waits_us) - (got > until), waits_us


def main() -> None:
    """Serve a `WorkerPool`."""
    with asyncio.Runner() as runner:
        serve(sys.stdin, sys.stdout, Crews(runner).prepare)
