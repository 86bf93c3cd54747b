"""Compare the locks in turn and print a table in Markdown: `python -m tests.benchmarks --help`."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from contextlib import nullcontext
from time import monotonic
from typing import NamedTuple

from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks import quiet
from tests.benchmarks.subjects import OURS, available


class Result(NamedTuple):
    """One run of one subject: cycles/s, Jain's fairness index, and the longest cycle in ms."""

    rate: float
    jain: float
    longest_ms: float


def jain(counts: list[int]) -> float:
    """Return Jain's fairness index: 1 when all got the same, 1/n when one got everything."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 0.0


def run(
    server: EmbeddedServer, subject: str, workers: int, seconds: float, *, pinned: bool
) -> Result:
    """Let `workers` processes fight for one lock; return how it went."""
    server.client().flushall()
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.worker",
        subject,
        server.url,
        f"bench-{workers}",
        "0",
    ]
    processes = [
        subprocess.Popen(
            [*command, str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(workers)
    ]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
        if pinned:
            quiet.pin(process.pid, quiet.CLIENTS)
    start = monotonic() + 0.2
    for process in processes:
        assert process.stdin
        process.stdin.write(f"{start}\n")
        process.stdin.flush()
    reports = [json.loads(process.communicate()[0]) for process in processes]
    counts = [report["count"] for report in reports]
    return Result(
        sum(counts) / seconds, jain(counts), max(report["max"] for report in reports) * 1000
    )


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
    with EmbeddedServer() as server, quiet.awake() if pinned else nullcontext():
        if pinned:
            quiet.pin(server.pid, quiet.SERVER)
        for workers in options.workers:
            rounds = [
                {
                    subject: run(server, subject, workers, options.seconds, pinned=pinned)
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
        "| lock | cycles/s | redis_locks is | Jain | longest cycle, ms |\n|---|---|---|---|---|\n"
    )
    for subject in subjects:
        results = [results[subject] for results in rounds]
        ratio = statistics.median(results[OURS].rate / results[subject].rate for results in rounds)
        write(
            f"| {subject} | {statistics.median(r.rate for r in results):.0f} | {ratio:.2f}x "
            f"| {statistics.median(r.jain for r in results):.3f} "
            f"| {statistics.median(r.longest_ms for r in results):.1f} |\n"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
