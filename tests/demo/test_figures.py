"""The comparison's figures against what the server counts, and against loops that share no code with the demo."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.runner import COMPARISONS
from demo_project.bank.models import Measurement
from redis_locks.testing.server import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
SECONDS = 0.3
ROUNDS = 3
AT_MOST = 2.5
"""By which factor two loops for the same work may differ on a busy machine."""

pytestmark = pytest.mark.django_db(transaction=True)


def measured(strategy: str, workers: int) -> Measurement:
    plan = Plan(
        seconds=SECONDS, workers=(workers,), accounts=("hot",), strategies=(strategy,), rounds=1
    )
    return COMPARISONS.run(plan).measurements.get()


@pytest.mark.ci
@pytest.mark.parametrize(
    "strategy", ["redis_lock", "optimistic", "watch_packed", "watch", "script"]
)
def test_as_many_transfers_are_reported_as_the_server_has_made(
    client: redis.Redis, strategy: str
) -> None:
    client.config_resetstat()
    row = measured(strategy, WORKERS)
    booked = client.info("commandstats")["cmdstat_hincrby"]["calls"]
    # Two bookings for each transfer, and each worker makes one before it is measured.
    assert 2 * (row.transfers + WORKERS) == booked
    assert row.conserved
    assert pytest.approx(row.transfers / row.seconds, rel=0.01) == row.transfers_per_second
    assert SECONDS <= row.seconds


def bare_rate(url: str, method: str) -> float:
    command = [sys.executable, "-m", "tests.demo.bare_loop", url, method, str(SECONDS)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    done, seconds, right = result.stdout.split()
    assert "True" == right
    return int(done) / float(seconds)


@pytest.mark.ci
@pytest.mark.timed
@pytest.mark.parametrize("strategy", ["script", "watch"])
def test_the_rates_are_those_of_a_loop_that_shares_no_code_with_the_demo(
    redis_server: EmbeddedServer, strategy: str
) -> None:
    # In turn, so that a change of the machine's load meets both.
    pairs = [
        (measured(strategy, 1).transfers_per_second, bare_rate(redis_server.url, strategy))
        for _ in range(ROUNDS)
    ]
    ours, theirs = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    assert 1 / AT_MOST < ours / theirs < AT_MOST, pairs
