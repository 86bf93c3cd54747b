"""The comparison reports as many transfers as the server counts."""

from __future__ import annotations

import pytest
import redis

from demo_project.bank.compare import runner
from demo_project.bank.compare.plan import Plan

WORKERS = 2
SECONDS = 0.2


@pytest.mark.ci
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("strategy", ["redis_lock", "optimistic", "script"])
def test_as_many_transfers_are_reported_as_the_server_has_made(
    client: redis.Redis, strategy: str
) -> None:
    client.config_resetstat()
    row = runner.run(Plan(SECONDS, (WORKERS,), (strategy,), ("hot",), 1)).measurements.get()
    booked = client.info("commandstats")["cmdstat_hincrby"]["calls"]
    # Two bookings for each transfer, and each worker makes one before it is measured.
    assert 2 * (row.transfers + WORKERS) == booked
    assert row.conserved
    assert pytest.approx(row.transfers / row.seconds, rel=0.01) == row.transfers_per_second
    assert SECONDS <= row.seconds
