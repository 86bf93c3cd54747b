"""Run a comparison and record it, at most one at a time anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from django.contrib.auth.models import User
from django.db import connections
from django.utils import timezone
from django_redis import get_redis_connection

from demo_project.bank.models import Comparison, Measurement
from redis_locks import LockNotAvailable, redis_lock

from .measuring import describe_versions, measure
from .plan import Plan

LOCK_NAME = "bank:comparison"

Started = Callable[[Comparison], None]
Measured = Callable[[Measurement], None]


class AlreadyRunning(Exception):
    """Another comparison holds the lock."""


def run_comparison(
    plan: Plan,
    user: User | None = None,
    *,
    on_start: Started | None = None,
    on_measurement: Measured | None = None,
) -> Comparison:
    """Run the plan in this thread and return its row; blocks until it is finished.

    Args:
        plan: What to measure.
        user: Who started it; None for nobody in particular.
        on_start: Called with the row once the lock is held.
        on_measurement: Called with each measurement as soon as it is saved.

    Raises:
        AlreadyRunning: Another comparison is under way; the message says whose.
        WorkerError: A worker failed; the row says so as well.
    """
    try:
        with redis_lock(
            LOCK_NAME, wait=0, label=f"comparison by {user or 'the command line'}"
        ) as hold:
            # We hold the lock, so whatever still claims to run has died.
            _mark_interrupted()
            comparison = Comparison.objects.create(
                parameters=plan.as_dict(), planned=len(plan), started_by=user
            )
            if on_start is not None:
                on_start(comparison)
            try:
                _measure_all(plan, comparison, on_measurement, hold.check)
            except BaseException as error:
                status = Comparison.Status.FAILED
                if not isinstance(error, Exception):
                    status = Comparison.Status.INTERRUPTED
                _finish(comparison, status, str(error) or type(error).__name__)
                raise
            _finish(comparison, Comparison.Status.FINISHED)
            return comparison
    except LockNotAvailable as error:
        holder = f" It is held by {error.holder}." if error.holder else ""
        raise AlreadyRunning(f"A comparison is already running.{holder}") from error


def start_comparison(plan: Plan, user: User | None = None) -> int:
    """Start the plan in a background thread and return the key of its row once it holds the lock.

    Raises:
        AlreadyRunning: Another comparison is under way; the message says whose.
        LockBackendError: The server cannot be asked.
    """
    started: Future[int] = Future()

    def announce(comparison: Comparison) -> None:
        started.set_result(comparison.pk)

    def run() -> None:
        try:
            run_comparison(plan, user, on_start=announce)
        except Exception as error:  # noqa: BLE001
            # What happens after the start is in the row, where the page finds it.
            if not started.done():
                started.set_exception(error)
        finally:
            connections.close_all()

    threading.Thread(target=run, name="comparison", daemon=True).start()
    return started.result()


def settle_interrupted() -> None:
    """Mark runs whose process has died as interrupted; does nothing while a run is alive.

    Raises:
        LockBackendError: The server cannot be asked.
    """
    if not Comparison.objects.filter(status=Comparison.Status.RUNNING).exists():
        return
    hold = redis_lock(LOCK_NAME, label="looking for dead comparisons").acquire(wait=0)
    if hold is not None:
        try:
            _mark_interrupted()
        finally:
            hold.release()


def _mark_interrupted() -> None:
    Comparison.objects.filter(status=Comparison.Status.RUNNING).update(
        status=Comparison.Status.INTERRUPTED,
        finished=timezone.now(),
        error="The process that ran it ended before it was finished.",
    )


def _measure_all(
    plan: Plan,
    comparison: Comparison,
    on_measurement: Measured | None,
    check_hold: Callable[[], None],
) -> None:
    conn = get_redis_connection("default")
    comparison.versions = describe_versions(conn)
    comparison.save(update_fields=["versions"])
    for cell, figures in measure(conn, plan):
        check_hold()
        measurement = Measurement.objects.create(
            comparison=comparison,
            strategy=cell.strategy,
            workers=cell.workers,
            accounts=cell.accounts,
            **figures.as_dict(),
        )
        comparison.measured += 1
        comparison.save(update_fields=["measured"])
        if on_measurement is not None:
            on_measurement(measurement)


def _finish(comparison: Comparison, status: Comparison.Status, error: str = "") -> None:
    comparison.status, comparison.error, comparison.finished = status, error, timezone.now()
    comparison.save(update_fields=["status", "error", "finished"])
