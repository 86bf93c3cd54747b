"""Compare the locks in turn and print a table in Markdown: `python -m tests.benchmarks --help`."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from contextlib import nullcontext
from typing import NamedTuple

from redis_locks.benchmark import measuring
from redis_locks.benchmark.figures import jain_index
from redis_locks.benchmark.pool import WorkerPool
from redis_locks.benchmark.subjects import OURS, SLEEPLESS, SUBJECTS
from redis_locks.benchmark.worker import Job
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks import quiet

COMPARED = (OURS, "redis-py", SLEEPLESS, "python-redis-lock")


class Result(NamedTuple):
    """One run of one lock: acquires/s, Jain's fairness index, and the longest wait in ms."""

    rate: float
    jain: float
    longest_ms: float


def run(
    server: EmbeddedServer, pool: WorkerPool, subject: str, workers: int, seconds: float
) -> Result:
    """Let `workers` processes fight for one lock; return how it went."""
    with server.client() as client:
        client.flushall()
    measuring.prepare(pool, Job(subject, server.url, seconds), workers)
    reports = measuring.run(pool, seconds)
    counts = [len(report.waits_us) for report in reports]
    longest = max((wait for report in reports for wait in report.waits_us), default=0)
    return Result(sum(counts) / seconds, jain_index(counts), longest / 1000)


def available() -> list[str]:
    """Return the locks whose package is installed here."""
    missing = [key for key in COMPARED if not SUBJECTS[key].is_installed]
    for key in missing:
        sys.stderr.write(f"{key} is not installed: left out\n")
    return [key for key in COMPARED if key not in missing]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")
    parser.add_argument("--repeat", type=int, default=5, help="how often all are run in turn")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10])
    parser.add_argument(
        "--no-pin", action="store_true", help="let the system place server and clients"
    )
    options = parser.parse_args()
    subjects = available()
    pinned = quiet.possible() and not options.no_pin
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    with (
        EmbeddedServer() as server,
        quiet.awake() if pinned else nullcontext(),
        measuring.client_pool(max(options.workers)) as pool,
    ):
        if pinned:
            quiet.pin(server.pid, quiet.SERVER)
            for pid in pool.pids:
                quiet.pin(pid, quiet.CLIENTS)
        for workers in options.workers:
            rounds = [
                {
                    subject: run(server, pool, subject, workers, options.seconds)
                    for subject in subjects
                }
                for _ in range(options.repeat)
            ]
            report(workers, subjects, rounds)


def report(workers: int, subjects: list[str], rounds: list[dict[str, Result]]) -> None:
    """Print one table; a ratio is the median of the ratios within one round."""
    write = sys.stdout.write
    write(
        f"\n{workers} process{'es' if workers > 1 else ''}, one lock, median of {len(rounds)} rounds\n\n"
    )
    write(
        "| lock | acquires/s | redis_locks is | Jain | longest wait, ms |\n|---|---|---|---|---|\n"
    )
    for subject in subjects:
        results = [results[subject] for results in rounds]
        ratio = statistics.median(results[OURS].rate / results[subject].rate for results in rounds)
        write(
            f"| {SUBJECTS[subject].label} | {statistics.median(r.rate for r in results):.0f} | {ratio:.2f}x "
            f"| {statistics.median(r.jain for r in results):.3f} "
            f"| {statistics.median(r.longest_ms for r in results):.1f} |\n"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
