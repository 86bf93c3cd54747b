"""Run a comparison and record it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, replace
from itertools import count

import redis
from django_redis import get_redis_connection

from demo_project.bank.models import Comparison, Measurement
from demo_project.bank.recorder import Check, Measured, Recorder
from demo_project.bank.server import MeasuredServer, measured_server
from redis_locks import LockBackendError

from .book import benchmark_of, locks_on, measure_table
from .cells import clear, measure
from .machine import describe_versions
from .plan import Plan


def for_this_server(plan: Plan) -> Plan:
    """The plan, with the locks of Table 11.2 that the bank's server has the commands for.

    Raises:
        LockBackendError: The server cannot be asked.
    """
    if not plan.table_seconds:
        return plan
    try:
        return replace(plan, table_locks=locks_on(get_redis_connection("default")))
    except redis.RedisError as error:
        raise LockBackendError(f"The bank's server did not answer: {error}") from error


def _run_id(comparison: Comparison) -> str:
    return f"comparison-{comparison.pk}"


def _clear(comparison: Comparison) -> None:
    clear(get_redis_connection("default"), _run_id(comparison))


def _measure_all(plan: Plan, comparison: Comparison, measured: Measured, check: Check) -> None:
    with measured_server() as server:
        _measure_server(server, plan, comparison, measured, check)


def _measure_server(
    server: MeasuredServer, plan: Plan, comparison: Comparison, measured: Measured, check: Check
) -> None:
    comparison.versions = describe_versions(server)
    comparison.save(update_fields=["versions"])
    if plan.table_seconds:
        turns = count()
        # Each turn begins when the one before it has been measured.
        contest = benchmark_of(plan.table_locks, plan.table_seconds, plan.rounds, server.url)
        comparison.book_table = measure_table(
            contest, lambda _: measured() if next(turns) else None, check
        )
        comparison.save(update_fields=["book_table"])
        measured()
    # Closed at once if we stop half-way, so that no worker works on.
    with closing(measure(server, plan, _run_id(comparison), check)) as measuring:
        for cell, figures in measuring:
            check()
            Measurement.objects.create(comparison=comparison, **asdict(cell), **figures.as_dict())
            measured()


COMPARISONS = Recorder(_measure_all, _clear)
