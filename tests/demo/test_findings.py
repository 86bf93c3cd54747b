"""What a run's figures are, and what is said of them: three words only, by its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from demo_project.bank.compare.advice import answers_of
from demo_project.bank.compare.findings import findings_of, orders_of
from demo_project.bank.compare.gate import Verdict, judge
from demo_project.bank.compare.plan import DEFAULT_TABLE_SECONDS, Plan
from demo_project.bank.compare.statistics import WorkerReport, summarise
from demo_project.bank.compare.summaries import Summaries, summarise_rounds
from demo_project.bank.compare.verdict import verdict_of
from demo_project.bank.strategies import STRATEGIES, Durability, label_of
from tests.demo.runs import Rates, measurement, rounds_of

OPTIMISTIC = label_of("optimistic")
HOT_OPTIMISTIC: Rates = {
    ("hot", 1, "optimistic"): [1000, 1000, 1000],
    ("hot", 1, "redis_lock"): [1000, 990, 1010],
    ("hot", 2, "optimistic"): [2000, 2100, 1900],
    ("hot", 2, "redis_lock"): [1500, 1600, 1500],
    ("hot", 5, "optimistic"): [700, 2000, 800],
    ("hot", 5, "redis_lock"): [1400, 1500, 1300],
    ("hot", 10, "optimistic"): [500, 500, 500],
    ("hot", 10, "redis_lock"): [1400, 1500, 1300],
}
ELSEWHERE = (("hot", 10, "rows_db"), ("hot", 10, "script_aof"))
"""Strategies whose money survives a crash."""


def summaries(rates: Rates, **changes: dict[str, float]) -> Summaries:
    """A run with these rates, in which these strategies have other figures than the usual ones."""
    rows = rounds_of(rates)
    for row in rows:
        for field, value in changes.get(row.strategy, {}).items():
            setattr(row, field, value)
    return summarise_rounds(rows)


def texts(found: Summaries) -> str:
    return "\n".join(finding.text for finding in findings_of(found))


def word(
    mine: Sequence[float], theirs: Sequence[float], *, less_is_better: bool = False
) -> Verdict:
    one, other = (dict(enumerate(values, 1)) for values in (mine, theirs))
    return judge(one, other, less_is_better=less_is_better).verdict


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ((120, 130, 140), (100, 110, 100), Verdict.BETTER),
        ((100, 110, 100), (120, 130, 140), Verdict.WORSE),
        ((104, 105, 106), (100, 101, 102), Verdict.NO_DIFFERENCE),
        ((105, 95, 100), (100, 100, 100), Verdict.NO_DIFFERENCE),
        ((200, 200, 90), (100, 100, 100), Verdict.NOT_DECIDED),
        ((105, 110, 190), (100, 100, 100), Verdict.NOT_DECIDED),
        ((200, 200), (100, 100), Verdict.NOT_DECIDED),
        ((9, 9, 9), (0, 0, 0), Verdict.BETTER),
    ],
)
def test_three_words_are_all_that_is_said_of_two(
    mine: tuple[float, ...], theirs: tuple[float, ...], expected: Verdict
) -> None:
    assert expected is word(mine, theirs)
    # The same, for a metric of which less is better, and said of the other.
    assert expected is word(theirs, mine, less_is_better=True)
    turned = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    assert turned.get(expected, expected) is word(theirs, mine)


def test_a_finding_says_with_how_many_workers_which_of_two_is_better() -> None:
    found = texts(summaries(HOT_OPTIMISTIC))
    assert (
        f"{OPTIMISTIC} is better with 2, redis_lock packed is better with 10, no difference with "
        "1, not decided with 5."
    ) in found


def test_too_few_rounds_make_no_order_and_the_page_says_so() -> None:
    found = texts(summaries({key: rates[:2] for key, rates in HOT_OPTIMISTIC.items()}))
    assert "nothing is decided: that takes 3 rounds." in found
    assert "better" not in found
    assert "no difference" not in found


def test_money_is_told_apart_by_safe_and_unsafe_strategies() -> None:
    rows = [
        measurement("hot", 2, "optimistic"),
        measurement("hot", 2, "unprotected", missing_cents=-250, overdrawn=2),
        measurement("hot", 5, "unprotected"),
    ]
    found = texts(summarise_rounds(rows))
    assert "The safe strategies conserved the money to the cent in 1 of 1 measurements." in found
    assert "the wrong amount of money in 1 of 2 measurements, by up to 2.50." in found
    assert "The safe strategies correctly refused 4 of 6 overdrafts." in found


def test_the_verdict_says_who_is_fastest_and_then_what_the_lock_gives() -> None:
    rates: Rates = {
        ("hot", 10, "redis_lock"): [1000, 1050, 950],
        ("hot", 10, "watch_packed"): [2000, 2100, 1900],
        # Neither packed, nor in memory, nor safe: they take no part.
        **dict.fromkeys([*ELSEWHERE, ("hot", 10, "watch"), ("hot", 10, "unprotected")], [9000] * 3),
    }
    found = summaries(
        rates,
        redis_lock={"fairness": 1.0, "p99_ms": 8.0, "retries_per_transfer": 0.0},
        watch_packed={"fairness": 0.8, "p99_ms": 8.2, "retries_per_transfer": 1.9},
    )
    assert {Durability.MEMORY} == {order.durability for order in orders_of(found)}
    fastest, given, money = verdict_of(found)
    assert "the fastest is WATCH packed (2,000 transfers/s, 2.0 trips), better " in fastest.text
    assert "Hot, 10 workers: fastest watch_packed, 2.0x redis_lock." == fastest.short
    for words in (
        "redis_lock packed first and WATCH packed second.",
        "Fairness (Jain's index): 1.00 and 0.80, better with redis_lock packed.",
        "Slowest 1 %: 8.0 ms and 8.2 ms, no difference.",
        "Tries for each transfer: 1.0 and 2.9, better with redis_lock packed.",
    ):
        assert words in given.text
    assert "  redis_lock is better in fairness 1.00 (0.80), tries 1.0 (2.9)." == given.short
    assert money.short.startswith("Money: safe ways right in 15 of 15 measurements")
    assert all(len(line.short) <= 80 for line in (fastest, given, money))
    assert [] == verdict_of({})


@pytest.mark.parametrize(
    ("optimistic", "short", "words"),
    [
        (
            [1900, 2000, 1950],
            "fastest redis_lock and optimistic, 2.0x watch_packed.",
            "there is no difference between the fastest, redis_lock packed (",
        ),
        (
            [2600, 1500, 1950],
            "fastest redis_lock or optimistic, 2.0x watch_packed.",
            "it is not decided which of these is the fastest: redis_lock packed (",
        ),
    ],
)
def test_the_verdict_names_nobody_the_fastest_who_is_not(
    optimistic: list[float], short: str, words: str
) -> None:
    rates: Rates = {
        ("hot", 10, "redis_lock"): [2000, 2100, 1900],
        ("hot", 10, "optimistic"): optimistic,
        ("hot", 10, "watch_packed"): [1000, 1000, 1000],
    }
    fastest = verdict_of(summaries(rates))[0]
    assert f"Hot, 10 workers: {short}" == fastest.short
    assert words in fastest.text
    assert "better than WATCH packed (1,000 transfers/s" in fastest.text
    assert "the fastest is" not in fastest.text


def test_a_safe_way_that_lost_money_is_accused() -> None:
    rows = [measurement("hot", 2, "optimistic", missing_cents=1), measurement("hot", 2, "script")]
    found = summarise_rounds(rows)
    money = verdict_of(found)[-1]
    assert (False, "Money: WRONG with optimistic") == (money.is_good, money.short)
    assert f"or overdrawn, which must not happen, by {OPTIMISTIC}." in texts(found)


def test_five_questions_are_answered_and_figures_pass_the_gate() -> None:
    rates: Rates = {
        ("hot", 10, "redis_lock"): [1000, 1050, 950],
        ("hot", 10, "optimistic"): [2000, 500, 1000],
        ("hot", 10, "rows_db"): [800, 800, 800],
        ("hot", 10, "rows_redis"): [400, 400, 400],
        ("spread", 10, "redis_lock"): [1000, 1000, 1000],
        ("spread", 10, "script"): [3000, 3000, 3000],
    }
    answers = answers_of(summaries(rates, optimistic={"retries_per_transfer": 1.5}))
    assert all(answer.general and answer.question.endswith("?") for answer in answers)
    for said, answer in zip(
        (
            "One Lua script (3,000) is better than redis_lock packed (1,000): 3.0x",
            "not decided between optimistic (1,000) and redis_lock packed (1,000)",
            "optimistic did the work 2.5 times for each transfer",
            "Rows: database locks (800) is better than Rows: lock_rows (400): 2.0x",
            "right to the cent in 9 of 9 measurements",
        ),
        answers,
        strict=True,
    ):
        assert said in answer.figures


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
