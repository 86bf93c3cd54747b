"""Real processes deposit money under a lock under faults; then the books are checked.

`REDIS_LOCKS_FAULT_SECONDS` is how long each fault lasts; `python -m tests.faults` prints the counts
as a table.
"""

from __future__ import annotations

import os
from math import inf

import pytest

from tests.faults import clock, subjects
from tests.faults.beliefs import Belief, count_falling, count_overlaps
from tests.faults.scenarios import SCENARIOS, Scenario, run

SECONDS = float(os.environ.get("REDIS_LOCKS_FAULT_SECONDS", "1"))

FIRST = {"calm", "mix", "lost-replies", "holder-killed"}
"""Faults that are tried with the tests that everybody runs."""

FOUND_SOON = {"flushed", "holder-paused"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90 + 3 * SECONDS)]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=[pytest.mark.ci if key in FOUND_SOON else pytest.mark.long])
        for key, each in SCENARIOS.items()
        if each.redis_py_fails
    ],
)
def test_the_same_check_finds_a_lock_at_fault_that_has_neither_tokens_nor_deadlines(
    key: str,
) -> None:
    scenario = SCENARIOS[key]
    if scenario.sets_the_clock and (reason := clock.why_not()):
        pytest.skip(reason)
    wrong = {"overlaps", "lost_updates", "drift", "stuck", "orphaned"}
    # Such a lock may be lucky for a second, most of all where the machine is slow.
    assert any(wrong & set(run(scenario, subjects.REDIS_PY, SECONDS).failures()) for _ in range(5))


def marks_of(key: str, scenario: Scenario) -> list[pytest.MarkDecorator]:
    if scenario.is_watched or scenario.ours_only:
        return [pytest.mark.long]
    return [] if key in FIRST else [pytest.mark.ci]


@pytest.mark.verdict
@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=marks_of(key, each)) for key, each in SCENARIOS.items()]
)
def test_nothing_is_lost_doubled_stuck_or_left_behind(key: str) -> None:
    scenario = SCENARIOS[key]
    if scenario.sets_the_clock and (reason := clock.why_not()):
        pytest.skip(reason)
    counts = run(scenario, subjects.OURS, SECONDS)
    assert {} == counts.failures(), counts
    assert counts.cycles > scenario.workers


def test_beliefs_at_the_same_time_are_counted_and_others_are_not() -> None:
    first, second, third = Belief(0, 10, 1), Belief(10, 20, 2), Belief(30, 40, 3)
    assert 0 == count_overlaps([third, first, second])
    assert 1 == count_overlaps([first, second, third, Belief(19, 21, 4)])
    assert 2 == count_overlaps([Belief(0, 50, 1), second, third])
    assert 0 == count_overlaps([Belief(0, 50, 1), Belief(25, 20, 2)])  # over before it was heard


def test_more_at_the_same_time_than_the_strictest_of_them_allows_are_counted() -> None:
    two = [Belief(start, start + 10, start, most=2) for start in (0, 1, 12, 13)]
    assert 0 == count_overlaps(two)
    assert 1 == count_overlaps([*two, Belief(2, 3, 5, most=2)])
    assert 1 == count_overlaps([*two, Belief(5, 6, 5, most=3)])
    sharing = [Belief(start, start + 10, start, most=inf) for start in range(5)]
    assert 0 == count_overlaps(sharing)
    assert 1 == count_overlaps([*sharing, Belief(13.5, 20, 9)])
    assert 0 == count_overlaps([*sharing, Belief(14, 20, 9)])
    assert 5 == count_overlaps([*sharing, Belief(-1, 8, 9)])


def test_tokens_that_do_not_grow_are_counted() -> None:
    first, second, third = Belief(0, 10, 1), Belief(10, 20, 2), Belief(30, 40, 3)
    assert 0 == count_falling([third, first, second])
    assert 1 == count_falling([first, second, Belief(30, 40, 2)])
    assert 2 == count_falling([first, Belief(10, 20, 1), Belief(30, 40, 0)])
    side_by_side = [Belief(0, 10, 2, most=inf), Belief(11, 20, 1, most=inf)]
    assert 0 == count_falling(side_by_side)
    assert 1 == count_falling([*side_by_side, Belief(30, 40, 2)])
    assert 1 == count_falling([Belief(0, 10, 2), Belief(11, 20, 1, most=inf)])
