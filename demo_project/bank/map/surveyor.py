"""Measure every spot of a map with real processes, and record it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

import redis
from django_redis import get_redis_connection

from demo_project.bank.compare.cells import (
    GRACE_SECONDS,
    WORKER,
    account_ids,
    clear,
    jobs_of,
    measure_jobs,
)
from demo_project.bank.compare.machine import describe_versions
from demo_project.bank.models import Map, MapMeasurement
from demo_project.bank.proxy import slow_way
from demo_project.bank.recorder import Check, Measured, Recorder
from demo_project.bank.server import MeasuredServer, measured_server
from redis_locks.benchmark.pool import WorkerPool

from .survey import Survey

PINGS = 20


def _run_id(run: Map) -> str:
    return f"map-{run.pk}"


def _clear(run: Map) -> None:
    clear(get_redis_connection("default"), _run_id(run))


def _measure_all(survey: Survey, run: Map, measured: Measured, check: Check) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(measured_server())
        # Before our own processes keep the machine busy.
        described = describe_versions(server)
        ways = stack.enter_context(_ways(server, survey, check))
        run.versions = {
            **described,
            "direct_ms": _round_trip_ms(server.conn),
            "round_trip_ms": [_round_trip_through(ways[one][0]) for one in survey.all_latency_ms],
        }
        run.save(update_fields=["versions"])
        for spot in survey.spots():
            check()
            url, pool = ways[spot.latency_ms]
            jobs = jobs_of(
                spot.strategy,
                account_ids(_run_id(run), spot.accounts),
                survey.seconds,
                survey.workers,
                work_seconds=spot.work_ms / 1000,
                url=url,
            )
            figures = measure_jobs(server.conn, pool, jobs)
            MapMeasurement.objects.create(
                map=run, workers=survey.workers, **asdict(spot), **figures.as_dict()
            )
            measured()


@contextmanager
def _ways(
    server: MeasuredServer, survey: Survey, check: Check
) -> Iterator[dict[float, tuple[str, WorkerPool]]]:
    """For each latency, an address that is so far away, and workers that are connected to it."""
    with ExitStack() as stack:
        ways = {}
        for latency in survey.all_latency_ms:
            # Also without latency: what the proxy costs is then in all cells, and does not count as latency.
            url = stack.enter_context(slow_way(server.conn, latency / 1000))
            pool = WorkerPool(WORKER, survey.workers, grace=GRACE_SECONDS, check=check)
            ways[latency] = url, stack.enter_context(pool)
        yield ways


def _round_trip_through(url: str) -> float:
    """What a round trip takes in fact by way of this address."""
    with redis.Redis.from_url(url) as client:
        return _round_trip_ms(client)


def _round_trip_ms(client: redis.Redis) -> float:
    times = []
    for _ in range(PINGS):
        before = time.perf_counter()
        client.ping()
        times.append(time.perf_counter() - before)
    return round(statistics.median(times) * 1000, 2)


MAPS = Recorder(Map, _measure_all, _clear)
