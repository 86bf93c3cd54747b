"""The comparison's figures and bounds, by example."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from demo_project.bank.compare.plan import DEFAULT_TABLE_SECONDS, Plan
from demo_project.bank.compare.statistics import WorkerReport, summarise
from demo_project.bank.strategies import STRATEGIES
from tests.support.benchmark import jain_index, percentile


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_a_percentile_is_a_measured_value(percent: float, expected: int) -> None:
    assert percentile(range(1, 101), percent) == expected


def test_jain_s_index_is_one_for_equal_shares_and_one_nth_for_a_monopoly() -> None:
    assert jain_index([5, 5, 5, 5]) == 1
    assert jain_index([8, 0, 0, 0]) == 0.25
    assert jain_index([0, 0]) == 0
    assert jain_index([]) == 0


def test_figures_put_all_workers_together() -> None:
    reports = [
        WorkerReport(2.0, 6, 1, 0, [1000, 3000], overdrafts=1, prevented=1),
        WorkerReport(1.5, 2, 0, 1, [2000, 4000], overdrafts=1, prevented=0),
    ]
    figures = summarise(reports, {"a": 50, "b": 50}, {"a": 130, "b": -20}, round_trips=15)
    assert figures.transfers == 4
    assert figures.transfers_per_second == 2.0
    assert figures.retries_per_transfer == 2.0
    assert (figures.p50_ms, figures.p99_ms, figures.max_ms) == (2.0, 4.0, 4.0)
    assert (figures.refused, figures.failed) == (1, 1)
    assert figures.fairness == 1.0
    assert (figures.missing_cents, figures.overdrawn) == (-10, 1)
    assert (figures.overdrafts, figures.prevented) == (2, 1)
    # Refused transfers and those given up go to the server as well.
    assert figures.round_trips == 2.5


def test_an_account_that_paid_out_more_than_it_had_is_overdrawn_whatever_its_balance_says() -> None:
    # Both paid all of it, and what the one wrote was overwritten by the other.
    twice = [WorkerReport(1, 0, 0, 0, [9], net={"a": -100, "b": 100}) for _ in range(2)]
    figures = summarise(twice, {"a": 100, "b": 0}, {"a": 0, "b": 100})
    assert (0, 1) == (figures.missing_cents, figures.overdrawn)
    once = summarise(twice[:1], {"a": 100, "b": 0}, {"a": 0, "b": 100})
    assert 0 == once.overdrawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": math.nan}, "seconds"),
        ({"seconds": 11}, "seconds"),
        ({"table_seconds": 11}, "table_seconds must be 0 or from"),
        ({"workers": (21,)}, "workers"),
        ({"workers": (2, 2)}, "workers"),
        ({"strategies": ("hope",)}, "strategies"),
        ({"rounds": 21}, "rounds"),
    ],
)
def test_a_plan_out_of_bounds_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(**arguments)


def test_a_full_comparison_takes_less_than_three_minutes() -> None:
    assert Plan(table_seconds=DEFAULT_TABLE_SECONDS).estimated_seconds < 170


def test_a_strategy_that_cannot_run_here_is_left_out_and_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = replace(STRATEGIES["script"], unavailable=lambda: "it needs PostgreSQL.")
    monkeypatch.setitem(STRATEGIES, "script", elsewhere)
    assert "script" not in Plan().strategies
    with pytest.raises(ValueError, match="it needs PostgreSQL"):
        Plan(strategies=("script",))
