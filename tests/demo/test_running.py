"""Runs of the comparison, made by real processes: one at a time, their counts and progress."""

from __future__ import annotations

import math
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import redis
from django.db import OperationalError, connections
from django.utils import timezone

from demo_project.bank.compare import book, runner
from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.progress import progress_of
from demo_project.bank.compare.runner import AlreadyRunning
from demo_project.bank.models import Comparison, Demo
from demo_project.bank.only_demo import only_demo
from demo_project.bank.server import CannotMeasure, MeasuredServer
from demo_project.bank.strategies import STRATEGIES
from redis_locks.testing import override_locks
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

TINY = Plan(seconds=0.05, workers=(2,), accounts=("hot",), rounds=1)


def test_the_progress_tells_what_is_measured_and_how_long_it_will_take() -> None:
    plan = Plan(
        seconds=0.2, workers=(2,), accounts=("hot",), strategies=("optimistic", "script"), rounds=3
    )
    run = Comparison(parameters=plan.as_dict(), planned=6, started=timezone.now())
    assert progress_of(run)["seconds_left"] == round(plan.estimated_seconds)
    run.measured, run.started = 3, timezone.now() - timedelta(seconds=2000)
    found = progress_of(run)
    assert {"measured": 3, "planned": 6, "seconds_left": 101}.items() <= found.items()
    assert "about 1 min 41 s left; round 2 of 3: One Lua script, 2 workers" in found["text"]


@pytest.mark.ci
def test_round_trips_are_those_that_the_strategies_are_known_for() -> None:
    known = {
        name: strategy.round_trips
        for name, strategy in STRATEGIES.items()
        if strategy.round_trips and not strategy.unavailable()
    }
    plan = Plan(seconds=0.2, workers=(1,), accounts=("hot",), strategies=tuple(known), rounds=3)
    trips: dict[str, float] = {}
    for row in runner.run(plan).measurements.all():
        # Whatever else is sent, such as a renewal, only adds to them: much, if a busy machine makes
        # few transfers.
        trips[row.strategy] = min(trips.get(row.strategy, math.inf), row.round_trips or 0)
    assert known == {name: round(fewest) for name, fewest in trips.items()}


@pytest.mark.ci
@pytest.mark.parametrize("strategy", ["redis_lock", "optimistic", "script"])
def test_as_many_transfers_are_reported_as_the_server_has_made(
    client: redis.Redis, strategy: str
) -> None:
    client.config_resetstat()
    row = runner.run(Plan(0.2, (2,), (strategy,), ("hot",), rounds=1)).measurements.get()
    booked = client.info("commandstats")["cmdstat_hincrby"]["calls"]
    # Two bookings for each transfer, and each worker makes one before it is measured.
    assert 2 * (row.transfers + 2) == booked
    assert row.conserved
    assert pytest.approx(row.transfers / row.seconds, rel=0.01) == row.transfers_per_second
    assert 0.2 <= row.seconds


@pytest.mark.ci
@pytest.mark.slow
def test_clicks_of_visitors_do_not_get_into_a_comparison(
    client: redis.Redis, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BANK_OWNS_SERVER, settings.BASE_DIR = True, tmp_path
    monkeypatch.setattr(book, "CLIENTS", (1,))
    client.config_resetstat()
    # Long enough for each lock to be acquired, also on a busy machine.
    plan = Plan(0.2, (1,), ("watch_packed", "script_aof"), ("hot",), rounds=1, table_seconds=0.3)
    over = threading.Event()

    def click() -> None:
        while not over.is_set():
            client.ping()

    with ThreadPoolExecutor(1) as visitors:
        visitors.submit(click)
        try:
            run = runner.run(plan)
        finally:
            over.set()
    assert {"watch_packed": 2, "script_aof": 1} == {
        row.strategy: round(row.round_trips or 0) for row in run.measurements.all()
    }
    assert all(row["acquires"] for row in run.book_table)
    commands = client.info("commandstats")
    assert commands["cmdstat_ping"]["calls"] > 0
    assert "cmdstat_hincrby" not in commands
    assert "this run alone" == run.versions["users"]
    assert "unknown" != run.versions["aof_disk"]
    assert "no" == client.config_get("appendonly")["appendonly"]


@override_locks("granted")
def test_of_two_comparisons_that_begin_at_once_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on two servers, whose locks know nothing of each other."""
    ended = threading.Event()
    at_once = threading.Barrier(2, timeout=20)

    def measure(*_args: Any) -> None:
        ended.wait(20)

    monkeypatch.setattr(runner, "measure_server", measure)

    def run() -> None:
        at_once.wait()
        try:
            runner.run(TINY)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        starts = [pool.submit(run) for _ in range(2)]
        refused, _ = wait(starts, timeout=20, return_when=FIRST_COMPLETED)
        ended.set()
    assert [AlreadyRunning] == [type(start.exception()) for start in refused]
    assert 1 == Comparison.objects.count()


def test_a_run_says_that_it_was_the_measured_server_that_died(
    client: redis.Redis, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(server: MeasuredServer, *_args: Any) -> None:
        server.conn.shutdown(nosave=True)
        server.conn.ping()

    settings.BANK_OWNS_SERVER, settings.BASE_DIR = True, tmp_path
    monkeypatch.setattr(runner, "measure", end)
    with pytest.raises(CannotMeasure, match="The server that was measured does not answer: "):
        runner.run(TINY)
    assert Comparison.Status.FAILED == Comparison.objects.get().status


def test_a_sign_of_life_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one demo of a database goes on when the database fails for a moment."""
    update = Mock(side_effect=OperationalError("the database restarts"))
    monkeypatch.setattr("demo_project.bank.only_demo.SIGN_SECONDS", 0.01)
    with only_demo("http://localhost/"), pytest.MonkeyPatch.context() as failing:
        failing.setattr(Demo.objects, "filter", lambda **_: Mock(update=update))
        until(lambda: update.call_count > 2)
    assert Demo.objects.get().seen is None
