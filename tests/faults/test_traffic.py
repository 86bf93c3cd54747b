"""Traffic that cannot deadlock is never taken for a deadlock."""

from __future__ import annotations

import os

import pytest

from tests.faults.traffic import traffic

LONG = int(os.environ.get("REDIS_LOCKS_TRAFFIC", "20000"))


@pytest.mark.verdict
@pytest.mark.parametrize(
    ("acquires", "deadlock_timeout"),
    [(500, 0.01), pytest.param(LONG, 0.05, marks=[pytest.mark.long, pytest.mark.timeout(3600)])],
)
def test_nested_traffic_in_one_order_is_never_taken_for_a_deadlock(
    acquires: int, deadlock_timeout: float
) -> None:
    found = traffic(acquires, deadlock_timeout=deadlock_timeout)
    assert {} == found["failures"], found
    assert acquires <= found["acquires"]
    assert found.get("looks", 0) > 0
