"""Traffic that cannot deadlock is never taken for a deadlock."""

from __future__ import annotations

import os

import pytest

from tests.faults.traffic import traffic


@pytest.mark.parametrize(
    "acquires",
    [
        2000,
        pytest.param(
            int(os.environ.get("REDIS_LOCKS_TRAFFIC", "20000")),
            marks=[pytest.mark.long, pytest.mark.timeout(3600)],
        ),
    ],
)
@pytest.mark.parametrize("acquires_look_after", [0.05])
def test_no_nested_traffic_in_one_order_is_taken_for_a_deadlock(
    acquires: int, acquires_look_after: float
) -> None:
    found = traffic(acquires, deadlock_timeout=acquires_look_after)
    assert {} == found["failures"], found
    assert acquires <= found["acquires"]
    assert found["looks"] > 0
