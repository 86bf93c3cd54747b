"""Processes that take locks, of ours and of other libraries, free ones and one that all want."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from demo_project.benchmark import measurement
from demo_project.benchmark.figures import WorkerReport, jain_index, percentile
from demo_project.benchmark.pool import Workers
from demo_project.benchmark.subjects import OURS, SLEEPLESS, SUBJECTS
from demo_project.benchmark.worker import Job
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks import bare
from tests.benchmarks.apart import apart_pool
from tests.benchmarks.sections import Figures, Measure, Place, Section, Wanted, ratio

RATE, JAIN, P99, LONGEST, USED = (
    "acquires/s", "Jain", "p99 wait, ms", "longest wait, ms", "in use, %",
)  # fmt: skip
US = SUBJECTS[OURS].label
COMPARED = f"{OURS} is"

HOLD = 0.001
"""Seconds."""


def figures(reports: Sequence[WorkerReport], seconds: float) -> Figures:
    """Return the figures of what clients did in so many seconds."""
    counts = [len(report.waits_us) for report in reports]
    waits = sorted(wait / 1000 for report in reports for wait in report.waits_us)
    return {
        RATE: sum(counts) / seconds,
        JAIN: jain_index(counts),
        P99: percentile(waits, 99),
        LONGEST: percentile(waits, 100),
        USED: 100 * sum(report.held for report in reports) / seconds,
    }


def call_out(
    server: EmbeddedServer,
    pool: Workers,
    clients: int,
    subject: str,
    seconds: float,
    *,
    hold: float = 0.0,
) -> None:
    """Get clients ready to take one lock, on an empty server."""
    with server.client() as client:
        client.flushall()
    measurement.prepare(pool, [Job(subject, server.url, seconds, None, hold)] * clients)


def opener(
    clients: int, *, hold: float = 0.0, apart: bool = False
) -> Callable[[Place], AbstractContextManager[Measure]]:
    """Return what opens a contest of so many clients; each is started by itself if `apart`."""

    @contextmanager
    def opened(place: Place) -> Iterator[Measure]:
        keys = {subject.label: key for key, subject in SUBJECTS.items()}
        with ExitStack() as stack:
            pool: Workers = stack.enter_context(apart_pool(clients)) if apart else place.pool

            def measure(label: str) -> Figures:
                call_out(place.server, pool, clients, keys[label], place.seconds, hold=hold)
                found = figures(measurement.run(pool, place.seconds), place.seconds)
                if hold:
                    return found
                return {name: figure for name, figure in found.items() if name != USED}

            yield measure

    return opened


def ahead(where: str, other: str, least: float) -> Wanted:
    """Return how far ahead of another lock ours is to be."""
    label = SUBJECTS[other].label
    return Wanted(f"{where}: against {label}", partial(ratio, ours=US, theirs=label), least)


def jain(where: str) -> Wanted:
    """Return how fair ours is to be."""
    return Wanted(f"{where}: Jain", lambda round_: round_[US][JAIN], 0.99, form="{:.3f}")


def _installed(*keys: str) -> list[str]:
    return [SUBJECTS[key].label for key in keys if SUBJECTS[key].is_installed]


def _shortest_long_wait(round_: dict[str, Figures]) -> float:
    return round_[US][LONGEST] / round_[SUBJECTS["redis-py"].label][LONGEST]


ALONE, ONE, APART, HELD = (
    "1 process", "10 processes, one lock", "10 processes, each started by itself, one lock", "10 processes, held for 1 ms",
)  # fmt: skip

SECTIONS = (
    Section(
        "alone",
        f"{ALONE}, a free lock",
        _installed(OURS, "redis-py", "lua", "python-redis-lock", "walrus", "sherlock", bare.KEY),
        opener(1),
        (
            ahead(ALONE, "redis-py", 1.4),
            ahead(ALONE, "lua", 1),
            ahead(ALONE, "walrus", 1),
            ahead(ALONE, "sherlock", 1),
        ),
        COMPARED,
    ),
    Section(
        "one",
        ONE,
        _installed(OURS, "redis-py", SLEEPLESS, "python-redis-lock", bare.KEY),
        opener(10),
        (
            ahead(ONE, "redis-py", 1.6),
            ahead(ONE, "python-redis-lock", 2),
            jain(ONE),
            Wanted(
                f"{ONE}: longest wait against redis-py Lock", _shortest_long_wait, 0.1, most=True
            ),
        ),
        COMPARED,
    ),
    Section(
        "apart",
        APART,
        _installed(OURS, "redis-py", "python-redis-lock"),
        opener(10, apart=True),
        (ahead(APART, "redis-py", 1.2), ahead(APART, "python-redis-lock", 1.5), jain(APART)),
        COMPARED,
    ),
    Section(
        "held",
        HELD,
        _installed(OURS, "redis-py", SLEEPLESS, "python-redis-lock", bare.KEY),
        opener(10, hold=HOLD),
        (
            Wanted(f"{HELD}: time in use", lambda round_: round_[US][USED], 85, form="{:.1f} %"),
            Wanted(
                f"{HELD}: p99 wait", lambda round_: round_[US][P99], 25, most=True, form="{:.1f} ms"
            ),
            jain(HELD),
        ),
        COMPARED,
    ),
)  # fmt: skip
