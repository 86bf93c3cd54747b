"""Acquire and release beside one other lock that is held, and beside a million."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from demo_project.benchmark import measurement
from demo_project.benchmark.subjects import OURS
from demo_project.benchmark.worker import Job
from redis_locks.connections.backends import backend_for
from tests.benchmarks.contests import RATE
from tests.benchmarks.sections import Figures, Measure, Place, Section, Wanted, ratio
from tests.benchmarks.sizes import ask

FEW, MANY = "beside 1 held lock", "beside a million"
HOUR_MS = 3_600_000
HELD = "held locks"


@contextmanager
def opened(place: Place) -> Iterator[Measure]:
    """Measure on a server with one lock that is held, and on one with very many."""
    urls = {}
    counts = {FEW: 1, MANY: place.others}
    for subject, count in counts.items():
        server = place.another_server()
        urls[subject] = server.url
        ask(server.url, (f"account:{number}" for number in range(count)), HOUR_MS)
        with server.client() as client:
            held = client.zcard(backend_for(server.url).keys("any")[0])
        if held != count:
            raise RuntimeError(f"{held} locks are held instead of {count}.")

    def measure(subject: str) -> Figures:
        measurement.prepare(place.pool, [Job(OURS, urls[subject], place.seconds)])
        (report,) = measurement.run(place.pool, place.seconds)
        return {RATE: len(report.waits_us) / place.seconds, HELD: counts[subject]}

    yield measure


SECTION = Section(
    "beside",
    "1 process, a free lock, and other locks that are held",
    (FEW, MANY),
    opened,
    (
        Wanted(
            f"time of a cycle {MANY}, against {FEW}",
            lambda round_: ratio(round_, FEW, MANY),
            1.1,
            most=True,
        ),
    ),
)
