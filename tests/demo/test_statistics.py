"""The comparison's figures and bounds, by example."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from demo_project.bank.compare.plan import DEFAULT_TABLE_SECONDS, Plan
from demo_project.bank.compare.statistics import WorkerReport, summarise
from demo_project.bank.strategies import STRATEGIES
from tests.support.benchmark import jain_index, percentile


def test_percentiles_are_measured_values_and_jain_s_index_falls_to_one_nth_for_a_monopoly() -> None:
    assert [1, 50, 99, 100] == [percentile(range(1, 101), of) for of in (0, 50, 99, 100)]
    assert [1, 0.25, 0, 0] == [jain_index(of) for of in ([5] * 4, [8, 0, 0, 0], [0, 0], [])]


def test_figures_put_all_workers_together() -> None:
    reports = [
        WorkerReport(2.0, 6, 1, 0, [1000, 3000], overdrafts=1, prevented=1),
        WorkerReport(1.5, 2, 0, 1, [2000, 4000], overdrafts=1, prevented=0),
    ]
    figures = summarise(reports, {"a": 50, "b": 50}, {"a": 130, "b": -20}, round_trips=15)
    assert {
        "transfers": 4,
        "transfers_per_second": 2.0,
        "retries_per_transfer": 2.0,
        "p50_ms": 2.0,
        "p99_ms": 4.0,
        "max_ms": 4.0,
        "refused": 1,
        "failed": 1,
        "fairness": 1.0,
        "missing_cents": -10,
        "overdrawn": 1,
        "overdrafts": 2,
        "prevented": 1,
        # Refused transfers and those given up go to the server as well.
        "round_trips": 2.5,
    }.items() <= asdict(figures).items()


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
