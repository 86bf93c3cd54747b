"""What handing over inside a process gains, against redis-py's locks in turn: `python -m tests.benchmarks.local`.

Two processes of 25 threads each on one lock, and 100 tasks of one event loop on one lock. With
`--batch 0` each hold is asked for, and nothing is expected.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from multiprocessing import get_context
from time import monotonic
from typing import Any, NamedTuple

import django
import redis
import redis.asyncio as aioredis

from redis_locks.benchmark.figures import jain_index
from redis_locks.testing.server import EmbeddedServer

NAME = "local"
PROCESSES, THREADS, TASKS = 2, 25, 100


class Contest(NamedTuple):
    """Where two locks compete, and by how much ours is to be ahead if it is handed over."""

    title: str
    run: Callable[..., list[int]]
    least: float


def our_lock(url: str, batch: int) -> Any:
    """Return our lock, with its server, and LOCAL_BATCH, configured in this process."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from django.conf import settings
    from django.test import override_settings

    from redis_locks import Lock

    # Set in another way it would come too late: the app has read its settings by now.
    override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "LOCAL_BATCH": batch}).enable()

    return Lock(NAME, using=url, wait=60)


def _in_threads(url: str, seconds: float, *, batch: int | None) -> list[int]:
    """Return how often each thread of this process got the lock."""
    start = threading.Barrier(THREADS)
    counts = [0] * THREADS
    client = redis.Redis.from_url(url)
    lock = None if batch is None else our_lock(url, batch)

    def make() -> AbstractContextManager[Any]:
        return lock or client.lock(NAME, timeout=10, sleep=0.001)

    def run(number: int) -> None:
        start.wait()
        until = monotonic() + seconds
        while monotonic() < until:
            with make():
                counts[number] += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    return counts


def in_processes(url: str, seconds: float, *, batch: int | None) -> list[int]:
    """Return how often each thread of all processes got our lock, or redis-py's if `batch` is None."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        work = partial(_in_threads, batch=batch)
        list(pool.map(work, [url] * PROCESSES, [0.1] * PROCESSES))  # all started and imported
        found = pool.map(work, [url] * PROCESSES, [seconds] * PROCESSES)
        return [count for counts in found for count in counts]


def in_tasks(url: str, seconds: float, *, batch: int | None) -> list[int]:
    """Return how often each task got our lock, or redis-py's if `batch` is None."""
    return asyncio.run(_in_tasks(url, seconds, batch=batch))


async def _in_tasks(url: str, seconds: float, *, batch: int | None) -> list[int]:
    counts = [0] * TASKS
    client = aioredis.Redis.from_url(url)
    lock = None if batch is None else our_lock(url, batch)

    def make() -> AbstractAsyncContextManager[Any]:
        return lock or client.lock(NAME, timeout=10)

    async with make():
        pass  # connected, and its scripts known
    until = monotonic() + seconds

    async def run(number: int) -> None:
        while monotonic() < until:
            async with make():
                counts[number] += 1

    await asyncio.gather(*(run(number) for number in range(TASKS)))
    await client.aclose()
    return counts


CONTESTS = (
    Contest(
        f"{PROCESSES} processes of {THREADS} threads; redis-py's Lock with sleep=0.001",
        in_processes,
        10,
    ),
    Contest(
        f"{TASKS} tasks; redis-py's asyncio Lock",
        in_tasks,
        5,
    ),
)


def main() -> None:
    """Run both in turn, and print; ends with 1 if ours is not as far ahead as it is to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")
    parser.add_argument("--repeat", type=int, default=5, help="how often both are run in turn")
    parser.add_argument("--batch", type=int, default=16, help="LOCAL_BATCH of our lock")
    options = parser.parse_args()
    behind = False
    with EmbeddedServer(use_environment=False) as server:
        for contest in CONTESTS:
            rounds = [
                (
                    contest.run(server.url, options.seconds, batch=options.batch),
                    contest.run(server.url, options.seconds, batch=None),
                )
                for _ in range(options.repeat)
            ]
            ratio = statistics.median(sum(ours) / max(sum(theirs), 1) for ours, theirs in rounds)
            least = contest.least if options.batch else 0
            behind = behind or ratio < least
            report(contest, rounds, ratio, options.seconds)
    sys.exit(int(behind))


def report(
    contest: Contest, rounds: list[tuple[list[int], list[int]]], ratio: float, seconds: float
) -> None:
    """Print one contest; the ratio is the median of those within one round."""
    write = sys.stdout.write
    write(f"\n{contest.title}, median of {len(rounds)} rounds\n\n")
    write("| lock | acquires/s | Jain |\n|---|---|---|\n")
    for label, place in (("redis_locks", 0), ("redis-py", 1)):
        rate = statistics.median(sum(each[place]) / seconds for each in rounds)
        jain = statistics.median(jain_index(each[place]) for each in rounds)
        write(f"| {label} | {rate:.0f} | {jain:.3f} |\n")
    write(
        f"\nredis_locks is {ratio:.1f}x redis-py; with LOCAL_BATCH, {contest.least:g}x are expected\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
