"""Runs that were never made, with figures chosen by a test, and how to wait for a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.runner import LOCK_NAME
from demo_project.bank.models import Comparison, Measurement
from redis_locks import Lock
from tests.support.waiting import until

Rates = Mapping[tuple[str, int, str], Sequence[float]]


def measurement(accounts: str, workers: int, strategy: str, **changes: Any) -> Measurement:
    """An unsaved measurement in which nothing went wrong."""
    figures = {
        "round": 1,
        "seconds": 0.3,
        "transfers": 300,
        "refused": 6,
        "failed": 0,
        "transfers_per_second": 1000.0,
        "retries_per_transfer": 0.5,
        "p50_ms": 1.5,
        "p99_ms": 9.5,
        "max_ms": 20.0,
        "fairness": 0.98,
        "missing_cents": 0,
        "overdrawn": 0,
        "overdrafts": 6,
        "prevented": 4,
        "round_trips": 2.0,
    }
    return Measurement(strategy=strategy, workers=workers, accounts=accounts, **figures | changes)


def rounds_of(rates: Rates) -> list[Measurement]:
    """Unsaved measurements with these transfers per second in each round."""
    return [
        measurement(*key, round=number, transfers_per_second=rate)
        for key, found in rates.items()
        for number, rate in enumerate(found, 1)
    ]


def finished_run(rates: Rates, **fields: Any) -> Comparison:
    """A saved run with these transfers per second in each round."""
    rows = rounds_of(rates)
    fields = {
        "parameters": Plan().as_dict(),
        "versions": {"server": "Valkey 9.9.9", "cpus": "2 x Some Chip"},
        "status": Comparison.Status.FINISHED,
        "planned": len(rows),
        "measured": len(rows),
    } | fields
    run = Comparison.objects.create(**fields)
    for row in rows:
        row.comparison = run
    Measurement.objects.bulk_create(rows)
    return run


def wait_until_finished(pk: int) -> Comparison:
    """The row of a run that has ended, and has let go of its lock."""
    runs = Comparison.objects.filter(pk=pk)
    until(runs.exclude(status=Comparison.Status.RUNNING).exists, within=40)
    # The row is written while the lock is held; the run is over when that is free.
    with Lock(LOCK_NAME, wait=10):
        return runs.get()
