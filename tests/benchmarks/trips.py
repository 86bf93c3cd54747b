"""Round trips of a cycle, as the server counts them, and those of waiters.

Without statistics: what each process sends of them every 5 s, however often it acquires, is no part of a cycle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import nan
from time import sleep
from typing import TYPE_CHECKING
from unittest import mock

import redis

from demo_project.benchmark import measurement
from demo_project.benchmark.pool import WorkerPool
from demo_project.benchmark.subjects import OURS, SUBJECTS, our_keys
from redis_locks import Lock
from redis_locks.protocol.lease import YOUNG
from redis_locks.protocol.silent_questions import SILENCE
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks.contests import call_out
from tests.benchmarks.sections import CLIENTS, Figures, Measure, Place, Section, Wanted
from tests.support import stored
from tests.support.world import until

if TYPE_CHECKING:
    from demo_project.bank.compare.cells import RoundTrips

TRIPS, SCRIPTS = "round trips", "scripts called"

CONTESTS = {
    "1 process": (1, 0.0),
    "10 processes": (10, 0.0),
    "10 processes, held for 1 ms": (10, 0.001),
    "10 processes, held for 50 ms": (10, 0.05),
    "10 processes, held for 300 ms": (10, 0.3),
}
"""How many processes take the lock, and for how many seconds they hold it."""

LASTING = 0.2
"""Seconds of a hold that lasts: its process then opens a connection, once, to hear if somebody ends it."""

MOMENT = 0.01
"""Seconds that are over when a waiter gets the lock, so that it takes it once."""

LOOKS = {"10 waiters in 0.5 s": 0.5, "10 waiters in 5 s": 5.0}
"""For how many seconds waiters are watched while nothing happens."""


@contextmanager
def opened(place: Place) -> Iterator[Measure]:
    """Measure how often processes ask the server."""
    with (
        mock.patch.dict(os.environ, {"DJANGO_SETTINGS_MODULE": "tests.settings"}),
        measurement.client_pool(CLIENTS) as pool,
        place.server.client() as client,
    ):

        def measure(subject: str) -> Figures:
            if subject in LOOKS:
                return waiting(place.server, pool, client, LOOKS[subject])
            clients, hold = CONTESTS[subject]
            if hold >= YOUNG:
                # What a process does once for all its holds that last is no part of a cycle.
                call_out(place.server, pool, clients, OURS, MOMENT, hold=LASTING)
                measurement.run(pool, MOMENT)
            # A lock that is held for long is held by each at least three times.
            seconds = max(place.seconds, 3 * clients * hold)
            call_out(place.server, pool, clients, OURS, seconds, hold=hold)
            return cycling(pool, client, seconds)

        yield measure


def cycling(pool: WorkerPool, client: redis.Redis, seconds: float) -> Figures:
    """Return what one acquire and release take."""
    before = _scripts_called(client)
    count = _counting(client)
    acquires = sum(len(report.waits_us) for report in measurement.run(pool, seconds))
    trips = count.stop()
    called = _scripts_called(client) - before
    return {TRIPS: nan if trips is None else trips / acquires, SCRIPTS: called / acquires}


def waiting(
    server: EmbeddedServer, pool: WorkerPool, client: redis.Redis, seconds: float
) -> Figures:
    """Return what processes send while they wait for a lock that nobody releases."""
    name = SUBJECTS[OURS].name
    call_out(server, pool, CLIENTS, OURS, MOMENT)
    with ThreadPoolExecutor(1) as executor:
        with Lock(name, using=server.url, lease=60):
            ran = executor.submit(measurement.run, pool, MOMENT)
            until(lambda: len(stored.line(client, our_keys(name).lock)) == CLIENTS)
            sleep(2 * SILENCE)  # who asked silently asks once more, and waits from then on
            before = _scripts_called(client)
            count = _counting(client)
            sleep(seconds)
            trips = count.stop()
            called = _scripts_called(client) - before
        ran.result()
    return {TRIPS: nan if trips is None else trips, SCRIPTS: called}


def _counting(client: redis.Redis) -> RoundTrips:
    """Return a count of round trips that has begun."""
    # It needs models, which Django loads later than this module.
    from demo_project.bank.compare.cells import RoundTrips

    count = RoundTrips(client)
    count.start()
    return count


def _scripts_called(client: redis.Redis) -> int:
    """Return how often scripts were called since the server started."""
    return int(client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


def _of(subject: str, most: float, *, each: str) -> Wanted:
    return Wanted(
        f"{subject}: round trips {each}",
        lambda round_: round_[subject][TRIPS],
        most,
        most=True,
        form="{:.2f}",
    )


SECTION = Section(
    "trips",
    "Round trips a cycle, and of waiters for a lock that stays held",
    (*CONTESTS, *LOOKS),
    opened,
    [
        *(
            _of(subject, 2.2 if clients > 1 else 2.004, each="a cycle")
            for subject, (clients, _) in CONTESTS.items()
        ),
        *(_of(subject, 0, each="in all") for subject in LOOKS),
    ],
)
