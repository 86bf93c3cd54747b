"""Run a comparison and record it, at most one at a time anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import asdict
from itertools import count

from django.contrib.auth.models import User
from django.db import connections
from django.utils import timezone
from django_redis import get_redis_connection

from demo_project.bank.models import Comparison, Measurement
from redis_locks import LockNotAvailable, inspection, redis_lock

from .book import measure_table
from .cells import clear, measure
from .machine import describe_versions
from .plan import Plan

LOCK_NAME = "bank:comparison"

Started = Callable[[Comparison], None]
Measured = Callable[[], None]


class AlreadyRunning(Exception):
    """Another comparison holds the lock."""


class Cancelled(Exception):
    """Somebody cancelled the run; the message says who."""


def run_comparison(
    plan: Plan,
    user: User | None = None,
    *,
    on_start: Started | None = None,
    on_measurement: Measured = lambda: None,
) -> Comparison:
    """Run the plan in this thread and return its row; blocks until it is finished.

    Args:
        plan: What to measure.
        user: Who started it; None for nobody in particular.
        on_start: Called with the row once the lock is held.
        on_measurement: Called after each measurement, as soon as it is saved.

    Raises:
        AlreadyRunning: Another comparison is under way; the message says whose.
        Cancelled: Somebody cancelled it; the row says so as well.
        CannotMeasure: Something is in the way of the benchmark of locks; the row says so as well.
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
                _finish(comparison, _status_after(error), str(error) or type(error).__name__)
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


def cancel_comparison(pk: int, who: str) -> bool:
    """Ask a run to end, which it does within a second, wherever it runs; False if it is not running."""
    running = Comparison.objects.filter(pk=pk, status=Comparison.Status.RUNNING)
    return bool(running.update(cancelled_by=who))


def settle_interrupted() -> None:
    """Mark runs whose process has died as interrupted; does nothing while a run is alive.

    Raises:
        LockBackendError: The server cannot be asked.
    """
    if not Comparison.objects.filter(status=Comparison.Status.RUNNING).exists():
        return
    # Asked first: whoever follows a run by its page must not take part in the lock of that run.
    found = inspection.lock(LOCK_NAME)
    if found is not None and found.holders:
        return
    hold = redis_lock(LOCK_NAME, label="looking for dead comparisons").acquire(wait=0)
    if hold is not None:
        try:
            _mark_interrupted()
        finally:
            hold.release()


def _mark_interrupted() -> None:
    for dead in Comparison.objects.filter(status=Comparison.Status.RUNNING):
        clear(get_redis_connection("default"), _run_id(dead))
        _finish(
            dead,
            Comparison.Status.INTERRUPTED,
            "The process that ran it ended before it was finished.",
        )


def _run_id(comparison: Comparison) -> str:
    return f"comparison-{comparison.pk}"


def _measure_all(
    plan: Plan,
    comparison: Comparison,
    on_measurement: Measured,
    check_hold: Callable[[], None],
) -> None:
    def check() -> None:
        check_hold()
        asked = Comparison.objects.filter(pk=comparison.pk).values_list("cancelled_by", flat=True)
        who = asked.first()
        if who is None:
            raise Cancelled("The run was deleted.")
        if who:
            raise Cancelled(f"Cancelled by {who}.")

    conn = get_redis_connection("default")
    comparison.versions = describe_versions(conn)
    comparison.save(update_fields=["versions"])

    def measured() -> None:
        comparison.measured += 1
        comparison.save(update_fields=["measured"])
        on_measurement()

    if plan.table_seconds:
        turns = count()
        # Each turn begins when the one before it has been measured.
        comparison.book_table = measure_table(
            plan.table_seconds, lambda _: measured() if next(turns) else None, check
        )
        comparison.save(update_fields=["book_table"])
        measured()
    # Closed at once if we stop half-way, so that no worker works on.
    with closing(measure(conn, plan, _run_id(comparison), check)) as measuring:
        for cell, figures in measuring:
            check()
            Measurement.objects.create(comparison=comparison, **asdict(cell), **figures.as_dict())
            measured()


def _status_after(error: BaseException) -> Comparison.Status:
    if isinstance(error, Cancelled):
        return Comparison.Status.CANCELLED
    # Ctrl-C and its like are no fault of the run.
    is_fault = isinstance(error, Exception)
    return Comparison.Status.FAILED if is_fault else Comparison.Status.INTERRUPTED


def _finish(comparison: Comparison, status: Comparison.Status, error: str = "") -> None:
    comparison.status, comparison.error, comparison.finished = status, error, timezone.now()
    # Not by save(), which fails if the row was deleted meanwhile.
    Comparison.objects.filter(pk=comparison.pk).update(
        status=status, error=error, finished=comparison.finished
    )
