"""Many threads, and many tasks, of a process on one lock, against redis-py's locks."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import Any

import redis
import redis.asyncio as aioredis

from demo_project.benchmark.figures import jain_index
from demo_project.benchmark.pool import WorkerPool
from demo_project.benchmark.worker_loop import serve
from tests.benchmarks.contests import COMPARED, JAIN, RATE
from tests.benchmarks.sections import Figures, Measure, Place, Section, Wanted, ratio

NAME = "local"
PROCESSES, THREADS, TASKS = 2, 25, 100
US = "redis_locks"


@dataclass(frozen=True)
class Job:
    """What a process does: the kind of its parties, whose lock they take, on which server, for how long."""

    kind: str
    subject: str
    url: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """How often each party of a process got the lock."""

    counts: list[int]


def prepare(message: dict[str, Any]) -> Callable[[], Report]:
    """Return what does a job."""
    job = Job(**message)
    return partial({"threads": _in_threads, "tasks": _in_tasks}[job.kind], job)


def _our_lock(job: Job) -> Any:
    """Return our lock, or None if it is not to be measured."""
    from redis_locks import Lock

    return Lock(NAME, using=job.url, wait=60) if job.subject == US else None


def _in_threads(job: Job) -> Report:
    counts = [0] * THREADS
    start = threading.Barrier(THREADS)
    lock = _our_lock(job)
    with redis.Redis.from_url(job.url) as client:

        def make() -> AbstractContextManager[Any]:
            return lock or client.lock(NAME, timeout=10, sleep=0.001)

        def run(number: int) -> None:
            start.wait()
            until = monotonic() + job.seconds
            while monotonic() < until:
                with make():
                    counts[number] += 1

        threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return Report(counts)


def _in_tasks(job: Job) -> Report:
    return asyncio.run(_tasks(job, _our_lock(job)))


async def _tasks(job: Job, lock: Any) -> Report:
    counts = [0] * TASKS
    async with aioredis.Redis.from_url(job.url) as client:

        def make() -> AbstractAsyncContextManager[Any]:
            return lock or client.lock(NAME, timeout=10)

        async with make():
            pass  # connected, and its scripts known
        until = monotonic() + job.seconds

        async def run(number: int) -> None:
            while monotonic() < until:
                async with make():
                    counts[number] += 1

        await asyncio.gather(*(run(number) for number in range(TASKS)))
    return Report(counts)


@contextmanager
def _opened(place: Place, kind: str, processes: int) -> Iterator[Measure]:
    url = place.server.url
    with WorkerPool("tests.benchmarks.local", processes, grace=60.0) as pool:

        def run(subject: str, seconds: float) -> Sequence[int]:
            pool.prepare([asdict(Job(kind, subject, url, seconds))] * processes)
            return [count for report in pool.run(seconds) for count in report["counts"]]

        def measure(subject: str) -> Figures:
            run(subject, 0.1)  # connected
            counts = run(subject, place.seconds)
            return {RATE: sum(counts) / place.seconds, JAIN: jain_index(counts)}

        yield measure


def _section(kind: str, processes: int, where: str, theirs: str, least: float) -> Section:
    wanted = [
        Wanted(f"{where}: {US} against {theirs}", partial(ratio, ours=US, theirs=theirs), least)
    ]
    opened = partial(_opened, kind=kind, processes=processes)
    return Section(kind, f"{where}, one lock", (US, theirs), opened, wanted, COMPARED)


SECTIONS = (
    _section(
        "threads",
        PROCESSES,
        f"{PROCESSES} processes of {THREADS} threads",
        "redis-py Lock, sleep=1ms",
        10,
    ),
    _section("tasks", 1, f"{TASKS} tasks of 1 process", "redis-py asyncio Lock", 5),
)


def main() -> None:
    """Serve a `WorkerPool`."""
    serve(sys.stdin, sys.stdout, prepare)
