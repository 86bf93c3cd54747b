"""The comparison's figures and bounds, by example."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo_project.bank.compare.plan import Plan
from demo_project.bank.compare.statistics import WorkerReport, jain_index, percentile, summarise


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_a_percentile_is_a_measured_value(percent: float, expected: int) -> None:
    assert percentile(range(1, 101), percent) == expected


def test_percentiles_of_few_values_or_none() -> None:
    assert percentile([7], 1) == percentile([7], 99) == 7
    assert percentile([1, 9], 50) == 1
    assert percentile([], 50) == 0


def test_jain_s_index_is_one_for_equal_shares_and_one_nth_for_a_monopoly() -> None:
    assert jain_index([5, 5, 5, 5]) == 1
    assert jain_index([8, 0, 0, 0]) == 0.25
    assert jain_index([0, 0]) == 0
    assert jain_index([]) == 0


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_jain_s_index_stays_between_one_nth_and_one(shares: list[int]) -> None:
    index = jain_index(shares)
    if any(shares):
        assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


def test_figures_put_all_workers_together() -> None:
    reports = [
        WorkerReport(2.0, 6, 1, 0, [1000, 3000]),
        WorkerReport(1.5, 2, 0, 1, [2000, 4000]),
    ]
    figures = summarise(reports, 100, [130, -20])
    assert figures.transfers == 4
    assert figures.transfers_per_second == 2.0
    assert figures.retries_per_transfer == 2.0
    assert (figures.p50_ms, figures.p99_ms, figures.max_ms) == (2.0, 4.0, 4.0)
    assert (figures.refused, figures.failed) == (1, 1)
    assert figures.fairness == 1.0
    assert (figures.missing_cents, figures.conserved, figures.overdrawn) == (-10, False, 1)


def test_figures_of_a_measurement_without_any_transfer() -> None:
    figures = summarise([WorkerReport(0.0, 3, 0, 3, [])], 10, [10])
    assert figures.transfers_per_second == figures.max_ms == figures.fairness == 0
    assert figures.conserved


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": 0}, "seconds"),
        ({"seconds": math.nan}, "seconds"),
        ({"seconds": math.inf}, "seconds"),
        ({"seconds": 11}, "seconds"),
        ({"workers": (0,)}, "workers"),
        ({"workers": (21,)}, "workers"),
        ({"workers": ()}, "workers"),
        ({"workers": (2, 2)}, "workers"),
        ({"strategies": ("hope",)}, "strategies"),
        ({"accounts": ("cold",)}, "accounts"),
    ],
)
def test_a_plan_out_of_bounds_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(**arguments)


def test_the_full_plan_covers_every_combination_once() -> None:
    plan = Plan()
    cells = list(plan.cells())
    assert len(plan) == len(set(cells)) == len(cells) == 8 * len(plan.strategies)
