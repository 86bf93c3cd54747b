"""Comparisons that run for a while: recorded in the database, at most one at a time anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import asdict, replace
from itertools import count

import redis
from django.contrib.auth.models import User
from django.db import connections
from django.db.transaction import atomic
from django.utils import timezone
from django_redis import get_redis_connection

from demo_project.bank.models import Comparison, Demo, Measurement
from demo_project.bank.persistence import no_own_server
from demo_project.bank.server import MeasuredServer, measured_server
from redis_locks import LockBackendError, LockNotAvailable, redis_lock

from .book import benchmark_of, locks_on, measure_table
from .cells import clear, measure
from .machine import describe_versions
from .plan import Plan

LOCK_NAME = "bank:comparison"
"""Of all runs, as they would disturb each other. Runs on other servers are found in the database.
"""


class AlreadyRunning(Exception):
    """Another run is under way on this server or this database; the message says whose."""

    def __init__(self, which: str) -> None:
        super().__init__(f"A comparison is already running. {which}".strip())


class Cancelled(Exception):
    """Somebody cancelled the run; the message says who."""


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


def run(
    plan: Plan,
    user: User | None = None,
    *,
    on_start: Callable[[Comparison], None] = lambda _: None,
    on_measurement: Callable[[], None] = lambda: None,
) -> Comparison:
    """Run the plan in this thread and return its row; blocks until it is finished.

    Args:
        plan: What to measure.
        user: The user who started it; None for nobody in particular.
        on_start: Called with the row once the lock is held.
        on_measurement: Called after each measurement, as soon as it is saved.

    Raises:
        AlreadyRunning: Another run is under way; the message says whose.
        Cancelled: Somebody cancelled it; the row says so as well.
        CannotMeasure: Something is in the way; the row says so as well.
        WorkerError: A worker failed; the row says so as well.
    """
    label = f"comparison by {user or 'the command line'}"
    try:
        with redis_lock(LOCK_NAME, wait=0, label=label) as hold:
            settle_interrupted()
            comparison = _begin(plan, user)
            on_start(comparison)
            try:
                _measure_all(plan, comparison, on_measurement, hold.check)
            except BaseException as error:
                _finish(comparison, _status_after(error), str(error) or type(error).__name__)
                raise
            _finish(comparison, Comparison.Status.FINISHED)
            return comparison
    except LockNotAvailable as error:
        raise AlreadyRunning(f"It is held by {error.holder}." if error.holder else "") from error


def start(plan: Plan, user: User | None = None) -> int:
    """Start the plan in a background thread and return the key of its row once it holds the lock.

    Raises:
        AlreadyRunning: Another run is under way; the message says whose.
        LockBackendError: The server cannot be asked.
    """
    started: Future[int] = Future()

    def work() -> None:
        try:
            run(plan, user, on_start=lambda comparison: started.set_result(comparison.pk))
        except Exception as error:  # noqa: BLE001
            # What happens after the start is in the row, where the page finds it.
            if not started.done():
                started.set_exception(error)
        finally:
            connections.close_all()

    threading.Thread(target=work, name="comparison", daemon=True).start()
    return started.result()


def cancel(pk: int, who: str) -> bool:
    """Ask a run, wherever it runs, to end within a second; False if it is not running."""
    running = Comparison.objects.filter(pk=pk, status=Comparison.Status.RUNNING)
    return bool(running.update(cancelled_by=who))


def settle_interrupted() -> None:
    """Mark runs whose process has died as interrupted; those that are alive go on."""
    why = "The process that ran it ended before it was finished."
    for comparison in Comparison.objects.filter(status=Comparison.Status.RUNNING):
        if not comparison.is_alive:
            # A server that died with the run has nothing left of it.
            with suppress(redis.RedisError):
                clear(get_redis_connection("default"), _run_id(comparison))
            _finish(comparison, Comparison.Status.INTERRUPTED, why)


def _run_id(comparison: Comparison) -> str:
    return f"comparison-{comparison.pk}"


def _begin(plan: Plan, user: User | None) -> Comparison:
    """Record that the plan runs.

    Raises:
        AlreadyRunning: Another run, on another server, has the same database.
    """
    with atomic():
        # Two that begin at once cannot both find that nothing runs.
        Demo.locked()
        for other in Comparison.objects.filter(status=Comparison.Status.RUNNING):
            if other.is_alive:
                raise AlreadyRunning(f"It is {other}, run by process {other.process}.")
        return Comparison.objects.create(
            parameters=plan.as_dict(), planned=len(plan), started_by=user
        )


def _measure_all(
    plan: Plan,
    comparison: Comparison,
    on_measurement: Callable[[], None],
    check_hold: Callable[[], None],
) -> None:
    def check() -> None:
        """Raise once the run is to end; called several times a second."""
        check_hold()
        if not no_own_server():
            # It is not the server that is measured, so nothing else would notice its end.
            get_redis_connection("default").ping()
        comparison.give_sign()
        asked = Comparison.objects.filter(pk=comparison.pk).values_list("cancelled_by", flat=True)
        who = asked.first()
        if who is None:
            raise Cancelled("The run was deleted.")
        if who:
            raise Cancelled(f"Cancelled by {who}.")

    def measured() -> None:
        comparison.measured += 1
        comparison.save(update_fields=["measured"])
        on_measurement()

    with measured_server() as server:
        measure_server(server, plan, comparison, measured, check)


def measure_server(
    server: MeasuredServer,
    plan: Plan,
    comparison: Comparison,
    measured: Callable[[], None],
    check: Callable[[], None],
) -> None:
    """Measure all of the plan; calls `measured` after each measurement, and `check` meanwhile."""
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


def _finish(comparison: Comparison, status: Comparison.Status, error: str = "") -> None:
    comparison.status, comparison.error, comparison.finished = status, error, timezone.now()
    # Not by save(), which fails if the row was deleted meanwhile.
    Comparison.objects.filter(pk=comparison.pk).update(
        status=status, error=error, finished=comparison.finished
    )


def _status_after(error: BaseException) -> Comparison.Status:
    if isinstance(error, Cancelled):
        return Comparison.Status.CANCELLED
    # Ctrl-C and its like are no fault of the run.
    is_fault = isinstance(error, Exception)
    return Comparison.Status.FAILED if is_fault else Comparison.Status.INTERRUPTED
