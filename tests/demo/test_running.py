"""Runs of the comparison, made by real processes: one at a time, what they count, how far they are."""

from __future__ import annotations

import math
import threading
import uuid
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connections
from django.utils import timezone

from demo_project.bank.accounts import (
    account_key,
    delete_accounts,
    read_balances,
    seed_accounts,
)
from demo_project.bank.compare import book, runner
from demo_project.bank.compare.cells import RoundTrips
from demo_project.bank.compare.plan import OVERHEAD_SECONDS, Plan
from demo_project.bank.compare.progress import progress_of
from demo_project.bank.compare.runner import COMPARISONS
from demo_project.bank.compare.worker import Job, work
from demo_project.bank.models import Comparison
from demo_project.bank.recorder import AlreadyRunning, CannotMeasure, Recorder
from demo_project.bank.server import MeasuredServer
from demo_project.bank.strategies import STRATEGIES
from redis_locks import Lock, LockBackendError, inspection
from redis_locks.testing import override_locks
from redis_locks.testing.server import EmbeddedServer
from tests.demo.runs import wait_until_finished
from tests.elsewhere import held
from tests.support.benchmark import WorkerError

pytestmark = pytest.mark.django_db(transaction=True)

TINY = Plan(seconds=0.05, workers=(2,), accounts=("hot",), rounds=1)


def test_the_progress_tells_what_is_measured_and_how_long_it_will_take() -> None:
    plan = Plan(
        seconds=0.2, workers=(2,), accounts=("hot",), strategies=("optimistic", "script"), rounds=3
    )
    run = Comparison(parameters=plan.as_dict(), planned=6, started=timezone.now())
    assert progress_of(run)["seconds_left"] == round(plan.estimated_seconds)
    run.measured, run.started = 3, timezone.now() - timedelta(seconds=2000)
    assert progress_of(run) == {
        "status": "running",
        "measured": 3,
        "planned": 6,
        "seconds_left": 101,
        "text": "3 of 6 measurements; about 1 min 41 s left; "
        "round 2 of 3: One Lua script, 2 workers, hot accounts",
    }


def test_the_time_left_knows_that_the_turns_of_the_table_are_longer() -> None:
    plan = Plan(seconds=0.1, strategies=("script",), rounds=1, table_seconds=5)
    table = 12 * 5
    assert pytest.approx(table + 8 * 0.1 + 20 * OVERHEAD_SECONDS) == plan.estimated_seconds
    assert pytest.approx(table / 2 + 8 * 0.1 + 14 * OVERHEAD_SECONDS) == (
        plan.estimated_seconds_after(6)
    )
    assert pytest.approx(4 * (0.1 + OVERHEAD_SECONDS)) == plan.estimated_seconds_after(16)
    assert 0 == plan.estimated_seconds_after(20)


def test_the_progress_of_another_version_s_run_is_still_counted() -> None:
    run = Comparison(parameters={"strategies": ["gone"]}, planned=6, measured=2)
    assert progress_of(run)["text"] == "2 of 6 measurements"


@pytest.mark.ci
def test_round_trips_are_those_that_the_strategies_are_known_for() -> None:
    known = {
        name: strategy.round_trips
        for name, strategy in STRATEGIES.items()
        if strategy.round_trips and not strategy.unavailable()
    }
    plan = Plan(seconds=0.2, workers=(1,), accounts=("hot",), strategies=tuple(known), rounds=3)
    trips: dict[str, float] = {}
    for row in COMPARISONS.run(plan).measurements.all():
        # Whatever else is sent, such as a renewal, only adds to them: much, if a busy machine makes few transfers.
        trips[row.strategy] = min(trips.get(row.strategy, math.inf), row.round_trips or 0)
    assert known == {name: round(fewest) for name, fewest in trips.items()}


def test_a_round_trip_is_a_message_and_no_hanging_up() -> None:
    with (
        EmbeddedServer(use_environment=False) as server,
        server.client() as asking,
        server.client() as talking,
    ):
        talking.ping()
        counter = RoundTrips(asking)
        counter.start()
        talking.ping()
        talking.pipeline(transaction=False).ping().ping().execute()
        talking.close()
        assert counter.stop() == 2


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
            run = COMPARISONS.run(plan)
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


def test_a_run_elsewhere_on_the_same_database_keeps_another_out(client: redis.Redis) -> None:
    alive = Comparison.objects.create(parameters={}, planned=40, process="elsewhere 4711")
    with pytest.raises(AlreadyRunning, match=f"It is {alive}, run by process elsewhere 4711."):
        COMPARISONS.run(TINY)
    assert 1 == Comparison.objects.count()


@override_locks("granted")
def test_of_two_comparisons_that_begin_at_once_one_runs() -> None:
    """As on two servers, whose locks know nothing of each other."""
    ended = threading.Event()
    at_once = threading.Barrier(2, timeout=20)

    def measure(*_args: Any) -> None:
        ended.wait(20)

    def run() -> None:
        at_once.wait()
        try:
            Recorder(measure, lambda _: None).run(TINY)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        starts = [pool.submit(run) for _ in range(2)]
        refused, _ = wait(starts, timeout=20, return_when=FIRST_COMPLETED)
        ended.set()
    assert [AlreadyRunning] == [type(start.exception()) for start in refused]
    assert 1 == Comparison.objects.count()


def test_a_failed_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any) -> Any:
        raise WorkerError("Worker process 7 failed: out of money")

    monkeypatch.setattr(runner, "measure", fail)
    with pytest.raises(WorkerError):
        COMPARISONS.run(TINY)
    run = Comparison.objects.get()
    assert (run.status, run.error) == ("failed", "Worker process 7 failed: out of money")


def test_a_run_says_that_it_was_the_measured_server_that_died(
    client: redis.Redis, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(server: MeasuredServer, *_args: Any) -> None:
        server.conn.shutdown(nosave=True)
        server.conn.ping()

    settings.BANK_OWNS_SERVER, settings.BASE_DIR = True, tmp_path
    monkeypatch.setattr(runner, "measure", end)
    with pytest.raises(CannotMeasure, match="The server that was measured does not answer: "):
        COMPARISONS.run(TINY)
    assert Comparison.Status.FAILED == Comparison.objects.get().status


def test_a_run_does_not_blame_the_measured_server_for_the_bank_s(
    client: redis.Redis, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any) -> None:
        raise redis.ConnectionError("the bank's server has ended")

    settings.BANK_OWNS_SERVER, settings.BASE_DIR = True, tmp_path
    monkeypatch.setattr(runner, "measure", fail)
    with pytest.raises(redis.ConnectionError, match="the bank's"):
        COMPARISONS.run(TINY)


@pytest.mark.ci
def test_only_one_of_two_starts_runs() -> None:
    first = COMPARISONS.start(TINY)
    with pytest.raises(AlreadyRunning, match="held by"):
        COMPARISONS.start(TINY)
    assert wait_until_finished(first).status == Comparison.Status.FINISHED
    assert Comparison.objects.count() == 1


@pytest.mark.ci
def test_the_safe_strategies_conserve_the_money_between_processes() -> None:
    run = COMPARISONS.run(Plan(seconds=0.2, workers=(4,), accounts=("hot",), rounds=1))
    for row in run.measurements.exclude(strategy="unprotected"):
        assert row.transfers > 0, row
        assert row.conserved, row
        assert not row.overdrawn, row
        assert row.prevented <= row.overdrafts, row


@pytest.mark.long
def test_without_a_lock_accounts_pay_out_more_than_they_have() -> None:
    plan = Plan(seconds=1, workers=(10,), accounts=("hot",), strategies=("unprotected",), rounds=3)
    rows = COMPARISONS.run(plan).measurements.all()
    assert any(row.overdrawn for row in rows), list(rows.values())


def test_a_wait_that_an_operator_cancels_is_a_failed_transfer(client: redis.Redis) -> None:
    accounts = {"cancelled-0": 1000, "cancelled-1": 1000}
    seed_accounts(client, accounts)
    job = Job("redis_lock", list(accounts), 0.1, 0, uuid.uuid4().hex, 1000)
    name = account_key("cancelled-0")
    with held(Lock(name)), ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, client, job)
        while not working.done():
            found = inspection.lock(name)
            for waiter in found.waiters if found else ():
                inspection.cancel(waiter)
        report = working.result()
    assert report.failed > 0
    assert not report.latencies_us
    assert accounts == read_balances(client, accounts)
    delete_accounts(client, accounts)


def test_a_server_that_cannot_be_asked_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise LockBackendError("gone fishing")

    monkeypatch.setattr("demo_project.bank.compare.worker.transfer_funds", fail)
    job = Job("script", ["a", "b"], 5, 0, "x", 1)
    monkeypatch.setattr("demo_project.bank.compare.worker.OVERDRAFT_EVERY", 10**9)
    with pytest.raises(LockBackendError):
        work(redis.Redis(), job)
