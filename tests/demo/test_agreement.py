"""Repeated runs do not contradict what the page of one run states in words; some of it they leave open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo_project.bank.compare.gate import Verdict
from demo_project.bank.compare.summaries import Summaries, summarise_rounds
from tests.demo.agreement import ROOT, claims_of, held_against_each_other
from tests.demo.runs import rounds_of


def run_with(optimistic: list[float], redis_lock: list[float]) -> Summaries:
    found = {("hot", 2, "optimistic"): optimistic, ("hot", 2, "redis_lock"): redis_lock}
    return summarise_rounds(rounds_of(found))


AHEAD = run_with([2000, 2100, 1900], [1000, 1100, 900])
CLOSE = run_with([2000, 1000, 1900], [1900, 1100, 1800])
BEHIND = run_with([1000, 1100, 900], [2000, 2100, 1900])


def test_a_claim_is_what_the_page_says_of_an_order_or_of_a_crossover() -> None:
    (claim,) = set(claims_of(AHEAD))
    assert "Throughput, hot accounts, 2 workers: optimistic better than redis_lock" == str(claim)
    (opposite,) = set(claims_of(BEHIND))
    assert ("redis_lock", "optimistic") == (opposite.better, opposite.worse)
    assert [] == list(claims_of(CLOSE))


def test_runs_that_contradict_each_other_are_found() -> None:
    assert [Verdict.WORSE] * 2 == [how for _, how in held_against_each_other([AHEAD, BEHIND])]
    assert [Verdict.NO_DIFFERENCE] == [how for _, how in held_against_each_other([AHEAD, CLOSE])]
    assert [Verdict.BETTER] * 2 == [how for _, how in held_against_each_other([AHEAD, AHEAD])]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_three_runs_do_not_contradict_each_other(tmp_path: Path) -> None:
    short = ["--seconds", "0.1", "--workers", "1", "2", "10", "--rounds", "5"]
    kept = {key: value for key, value in os.environ.items() if key != "REDIS_URL"}
    environment = {
        **kept,
        "DEMO_DATABASE": str(tmp_path / "demo.sqlite3"),
        "DJANGO_SETTINGS_MODULE": "demo_project.settings",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.demo.agreement", *short],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert "said to be better in one run" in ran.stdout
