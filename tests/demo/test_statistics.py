"""The comparison's figures and bounds, by example."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo_project.bank.compare.plan import DEFAULT_TABLE_SECONDS, Plan
from demo_project.bank.compare.statistics import WorkerReport, summarise
from demo_project.bank.strategies import STRATEGIES
from tests.support.benchmark import jain_index, percentile


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


def test_figures_of_a_measurement_without_any_transfer() -> None:
    figures = summarise([WorkerReport(0.0, 3, 0, 3, [])], {"a": 10}, {"a": 10})
    assert figures.transfers_per_second == figures.max_ms == figures.fairness == 0
    assert figures.missing_cents == 0
    assert figures.round_trips is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": 0}, "seconds"),
        ({"seconds": math.nan}, "seconds"),
        ({"seconds": math.inf}, "seconds"),
        ({"seconds": 11}, "seconds"),
        ({"table_seconds": -1}, "table_seconds"),
        ({"table_seconds": 11}, "table_seconds must be 0 or from"),
        ({"workers": (0,)}, "workers"),
        ({"workers": (21,)}, "workers"),
        ({"workers": ()}, "workers"),
        ({"workers": (2, 2)}, "workers"),
        ({"strategies": ("hope",)}, "strategies"),
        ({"accounts": ("cold",)}, "accounts"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 21}, "rounds"),
    ],
)
def test_a_plan_out_of_bounds_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(**arguments)


def test_the_full_plan_covers_every_combination_once() -> None:
    plan = Plan()
    cells = list(plan.cells())
    assert len(plan) == len(set(cells)) == len(cells) == 4 * 8 * len(plan.strategies)


def test_each_round_measures_all_combinations_in_turn() -> None:
    plan = Plan(workers=(2,), accounts=("hot",), strategies=("optimistic", "script"), rounds=2)
    assert [(1, "optimistic"), (1, "script"), (2, "optimistic"), (2, "script")] == [
        (cell.round, cell.strategy) for cell in plan.cells()
    ]


def test_a_full_comparison_takes_less_than_three_minutes() -> None:
    assert Plan(table_seconds=DEFAULT_TABLE_SECONDS).estimated_seconds < 170


def test_a_plan_survives_json() -> None:
    plan = Plan(seconds=0.5, workers=(3,), strategies=("script",), rounds=2, table_seconds=0.1)
    assert plan == Plan.from_dict(json.loads(json.dumps(plan.as_dict())))
    assert Plan() == Plan.from_dict({})


def test_a_strategy_that_cannot_run_here_is_left_out_and_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = replace(STRATEGIES["script"], unavailable=lambda: "it needs PostgreSQL.")
    monkeypatch.setitem(STRATEGIES, "script", elsewhere)
    assert "script" not in Plan().strategies
    with pytest.raises(ValueError, match="it needs PostgreSQL"):
        Plan(strategies=("script",))
