"""Comparisons that run for a while: recorded in the database, at most one at a time anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import redis
from django.contrib.auth.models import User
from django.db import connections
from django.db.transaction import atomic
from django.utils import timezone
from django_redis import get_redis_connection

from redis_locks import LockNotAvailable, redis_lock

from .models import Comparison, Demo
from .persistence import no_own_server

LOCK_NAME = "bank:comparison"
"""Of all runs, as they would disturb each other. Runs on other servers are found in the database.
"""

Measured = Callable[[], None]
Check = Callable[[], None]


class AlreadyRunning(Exception):
    """Another run is under way on this server or this database; the message says whose."""

    def __init__(self, which: str) -> None:
        super().__init__(f"A comparison is already running. {which}".strip())


class CannotMeasure(Exception):
    """Something is in the way of the measurements; the message says what."""


class Cancelled(Exception):
    """Somebody cancelled the run; the message says who."""


class AnyPlan(Protocol):
    """What a run is to measure."""

    def as_dict(self) -> dict[str, Any]:
        """The plan in JSON's types."""

    def __len__(self) -> int:
        """How many measurements it has."""


P = TypeVar("P", bound=AnyPlan)


class Recorder(Generic[P]):
    """Runs plans, and records them.

    Args:
        measure: Does all that a plan says. It is given the plan, the run's row, and two functions.
            It calls the first after each measurement, and the second several times a second, which
            raises once the run is to end.
        clear: Removes from Redis what a run has left there whose process died.
    """

    def __init__(
        self,
        measure: Callable[[P, Comparison, Measured, Check], None],
        clear: Callable[[Comparison], None],
    ) -> None:
        self._measure = measure
        self._clear = clear

    def run(
        self,
        plan: P,
        user: User | None = None,
        *,
        on_start: Callable[[Comparison], None] | None = None,
        on_measurement: Measured = lambda: None,
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
                self.settle_interrupted()
                run = self._begin(plan, user)
                if on_start is not None:
                    on_start(run)
                try:
                    self._measure_all(plan, run, on_measurement, hold.check)
                except BaseException as error:
                    self._finish(run, _status_after(error), str(error) or type(error).__name__)
                    raise
                self._finish(run, Comparison.Status.FINISHED)
                return run
        except LockNotAvailable as error:
            raise AlreadyRunning(
                f"It is held by {error.holder}." if error.holder else ""
            ) from error

    def start(self, plan: P, user: User | None = None) -> int:
        """Start the plan in a background thread and return the key of its row once it holds the lock.

        Raises:
            AlreadyRunning: Another run is under way; the message says whose.
            LockBackendError: The server cannot be asked.
        """
        started: Future[int] = Future()

        def announce(run: Comparison) -> None:
            started.set_result(run.pk)

        def work() -> None:
            try:
                self.run(plan, user, on_start=announce)
            except Exception as error:  # noqa: BLE001
                # What happens after the start is in the row, where the page finds it.
                if not started.done():
                    started.set_exception(error)
            finally:
                connections.close_all()

        threading.Thread(target=work, name="comparison", daemon=True).start()
        return started.result()

    def cancel(self, pk: int, who: str) -> bool:
        """Ask a run to end, which it does within a second, wherever it runs; False if it is not running."""
        running = self._rows.filter(pk=pk, status=Comparison.Status.RUNNING)
        return bool(running.update(cancelled_by=who))

    def settle_interrupted(self) -> None:
        """Mark runs whose process has died as interrupted; those that are alive go on."""
        for run in self._rows.filter(status=Comparison.Status.RUNNING):
            if run.is_alive:
                continue
            # A server that died with the run has nothing left of it.
            with suppress(redis.RedisError):
                self._clear(run)
            self._finish(
                run,
                Comparison.Status.INTERRUPTED,
                "The process that ran it ended before it was finished.",
            )

    @property
    def _rows(self) -> Any:
        return Comparison._default_manager

    def _begin(self, plan: P, user: User | None) -> Comparison:
        """Record that the plan runs.

        Raises:
            AlreadyRunning: Another run, on another server, has the same database.
        """
        with atomic():
            # Two that begin at once cannot both find that nothing runs.
            Demo.locked()
            for other in self._rows.filter(status=Comparison.Status.RUNNING):
                if other.is_alive:
                    raise AlreadyRunning(f"It is {other}, run by process {other.process}.")
            run: Comparison = self._rows.create(
                parameters=plan.as_dict(), planned=len(plan), started_by=user
            )
        return run

    def _measure_all(
        self, plan: P, run: Comparison, on_measurement: Measured, check_hold: Check
    ) -> None:
        def check() -> None:
            check_hold()
            if not no_own_server():
                # It is not the server that is measured, so nothing else would notice its end.
                get_redis_connection("default").ping()
            run.give_sign()
            asked = self._rows.filter(pk=run.pk).values_list("cancelled_by", flat=True)
            who = asked.first()
            if who is None:
                raise Cancelled("The run was deleted.")
            if who:
                raise Cancelled(f"Cancelled by {who}.")

        def measured() -> None:
            run.measured += 1
            run.save(update_fields=["measured"])
            on_measurement()

        self._measure(plan, run, measured, check)

    def _finish(self, run: Comparison, status: Comparison.Status, error: str = "") -> None:
        run.status, run.error, run.finished = status, error, timezone.now()
        # Not by save(), which fails if the row was deleted meanwhile.
        self._rows.filter(pk=run.pk).update(status=status, error=error, finished=run.finished)


def _status_after(error: BaseException) -> Comparison.Status:
    if isinstance(error, Cancelled):
        return Comparison.Status.CANCELLED
    # Ctrl-C and its like are no fault of the run.
    is_fault = isinstance(error, Exception)
    return Comparison.Status.FAILED if is_fault else Comparison.Status.INTERRUPTED
