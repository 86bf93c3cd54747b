"""What the page says of a run: three words only, by its rounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from demo_project.bank.compare.advice import answers_of
from demo_project.bank.compare.findings import findings_of, orders_of
from demo_project.bank.compare.gate import Verdict, judge
from demo_project.bank.compare.rankings import cross, rank
from demo_project.bank.compare.summaries import (
    THROUGHPUT,
    Summaries,
    Summary,
    summarise_rounds,
)
from demo_project.bank.compare.verdict import verdict_of
from demo_project.bank.strategies import Durability, label_of
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


def summary(*rates: float, strategy: str = "redis_lock") -> Summary:
    (found,) = summarise_rounds(rounds_of({("hot", 2, strategy): rates})).values()
    return found


def summaries(rates: Rates) -> Summaries:
    return summarise_rounds(rounds_of(rates))


def texts(rates: Rates, busy: float = 0) -> list[str]:
    return [finding.text for finding in findings_of(summaries(rates), busy)]


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


def test_an_order_has_the_best_median_first_and_says_what_each_place_is_worth() -> None:
    places = rank(
        [
            summary(100, 100, 100, strategy="book_lua"),
            summary(300, 310, 290, strategy="script"),
            summary(105, 99, 101, strategy="redis_lock"),
        ],
        THROUGHPUT,
    )
    found = [(place.summary.strategy, place.after and place.after.verdict) for place in places]
    assert [
        ("script", None),
        ("redis_lock", Verdict.BETTER),
        ("book_lua", Verdict.NO_DIFFERENCE),
    ] == found


def test_the_crossover_is_between_the_last_win_and_the_first_defeat() -> None:
    found = cross(summaries(HOT_OPTIMISTIC), "hot", "optimistic", "redis_lock", THROUGHPUT)
    assert found is not None
    assert ((2,), (10,), (1,), (5,)) == (
        found.better,
        found.worse,
        found.no_difference,
        found.not_decided,
    )
    assert (2, 10) == found.between


def test_a_finding_tells_with_how_many_workers_which_is_better() -> None:
    assert (
        f"In this run, on hot accounts, {OPTIMISTIC} against redis_lock packed, by number of workers: "
        f"{OPTIMISTIC} is better with 2, redis_lock packed is better with 10, no difference with 1, not decided with 5."
    ) in texts(HOT_OPTIMISTIC)


def test_too_few_rounds_make_no_order_and_the_page_says_so() -> None:
    found = texts({key: rates[:2] for key, rates in HOT_OPTIMISTIC.items()})
    assert any(
        "made 2 times. So nothing is decided: that takes 3 rounds." in text for text in found
    )
    assert not any("better" in text or "no difference" in text for text in found)


def test_money_is_told_apart_by_safe_and_unsafe_strategies() -> None:
    rows = [
        measurement("hot", 2, "optimistic"),
        measurement("hot", 2, "unprotected", missing_cents=-250, overdrawn=2),
        measurement("hot", 5, "unprotected"),
    ]
    found = [finding.text for finding in findings_of(summarise_rounds(rows))]
    assert "The safe strategies conserved the money to the cent in 1 of 1 measurements." in found
    assert (
        "No locking (unsafe) ended with the wrong amount of money in 1 of 2 measurements, by up to 2.50. "
        "It let accounts pay out more than they had, 2 times."
    ) in found
    assert "The safe strategies correctly refused 4 of 6 overdrafts." in found


def test_strategies_of_another_durability_take_no_place_in_an_order() -> None:
    rates: Rates = {
        **HOT_OPTIMISTIC,
        ("hot", 10, "rows_db"): [9000, 9000, 9000],
        ("hot", 10, "script_aof"): [9000, 9000, 9000],
    }
    assert {Durability.MEMORY} == {order.durability for order in orders_of(summaries(rates))}
    assert not any("Rows" in text or "AOF" in text for text in texts(rates))


def with_figures(*, rates: Rates, **changes: dict[str, float]) -> Summaries:
    """A run in which these methods have other figures than the usual ones."""
    rows = rounds_of(rates)
    for row in rows:
        for field, value in changes.get(row.strategy, {}).items():
            setattr(row, field, value)
    return summarise_rounds(rows)


def test_the_verdict_says_who_is_fastest_and_then_what_the_lock_gives() -> None:
    rates: Rates = {
        ("hot", 10, "redis_lock"): [1000, 1050, 950],
        ("hot", 10, "watch_packed"): [2000, 2100, 1900],
        ("hot", 10, "watch"): [9000, 9000, 9000],
        ("hot", 10, "watch_packed_aof"): [9000, 9000, 9000],
        ("hot", 10, "unprotected"): [9000, 9000, 9000],
    }
    found = with_figures(
        rates=rates,
        redis_lock={"fairness": 1.0, "p99_ms": 8.0, "retries_per_transfer": 0.0},
        watch_packed={"fairness": 0.8, "p99_ms": 8.2, "retries_per_transfer": 1.9},
    )
    fastest, given, money = verdict_of(found)
    assert (
        "On 2 accounts with 10 workers, the fastest is WATCH packed (2,000 transfers/s, 2.0 trips), better "
        "than redis_lock packed (1,000 transfers/s, 2.0 trips): 2.0x, 2.0x to 2.0x in the rounds."
    ) == fastest.text
    assert "Hot, 10 workers: fastest watch_packed, 2.0x redis_lock." == fastest.short
    assert (
        "For that, redis_lock packed gives, beside WATCH packed, Jain's index: better (1.00 and 0.80); the slowest 1 %: "
        "no difference (8.0 ms and 8.2 ms); how often the work is done: better (1.0 times and 2.9 times). Side effects "
        "and other systems may be inside: the lock covers them, and their part is done once."
    ) == given.text
    assert "  redis_lock: better Jain 1.00 (0.80), work 1.0 times (2.9 times)." == given.short
    assert money.short.startswith("Money: safe ways right in 12 of 12 measurements")
    assert all(len(line.short) <= 80 for line in (fastest, given, money))
    assert [] == verdict_of({})


@pytest.mark.parametrize(
    ("optimistic", "words"),
    [
        (
            [1900, 2000, 1950],
            "there is no difference between the fastest, redis_lock packed (2,000 transfers/s",
        ),
        (
            [2600, 1500, 1950],
            "it is not decided which of these is the fastest: redis_lock packed (2,000 transfers/s",
        ),
    ],
)
def test_the_verdict_names_nobody_the_fastest_who_is_not(
    optimistic: list[float], words: str
) -> None:
    rates: Rates = {
        ("hot", 10, "redis_lock"): [2000, 2100, 1900],
        ("hot", 10, "optimistic"): optimistic,
        ("hot", 10, "watch_packed"): [1000, 1000, 1000],
    }
    fastest = verdict_of(summaries(rates))[0].text
    assert words in fastest
    assert "better than WATCH packed (1,000 transfers/s" in fastest
    assert "the fastest is" not in fastest


def test_the_verdict_accuses_a_safe_way_that_lost_money() -> None:
    rows = [measurement("hot", 2, "optimistic", missing_cents=1), measurement("hot", 2, "script")]
    money = verdict_of(summarise_rounds(rows))[-1]
    assert (False, "Money: WRONG with optimistic") == (money.is_good, money.short)
    found = [finding.text for finding in findings_of(summarise_rounds(rows))]
    assert f"Money was lost, made up or overdrawn, which must not happen, by {OPTIMISTIC}." in found


def test_five_questions_are_answered_and_figures_pass_the_gate() -> None:
    rates: Rates = {
        ("hot", 10, "redis_lock"): [1000, 1050, 950],
        ("hot", 10, "optimistic"): [2000, 500, 1000],
        ("hot", 10, "rows_db"): [800, 800, 800],
        ("hot", 10, "rows_redis"): [400, 400, 400],
        ("spread", 10, "redis_lock"): [1000, 1000, 1000],
        ("spread", 10, "script"): [3000, 3000, 3000],
    }
    found = with_figures(
        rates=rates,
        redis_lock={"retries_per_transfer": 0.0},
        optimistic={"retries_per_transfer": 1.5},
    )
    answers = answers_of(found)
    assert 5 == len(answers)
    assert all(answer.general and answer.question.endswith("?") for answer in answers)
    server, conflicts, work, rows, late = (answer.figures for answer in answers)
    assert "One Lua script (3,000) is better than redis_lock packed (1,000): 3.0x" in server
    assert (
        "On hot accounts with 10 workers, not decided between optimistic (1,000) and redis_lock packed (1,000) transfers/s."
    ) == conflicts
    assert "optimistic did the work 2.5 times for each transfer" in work
    assert "Rows: database locks (800) is better than Rows: lock_rows (400): 2.0x" in rows
    assert "right to the cent in 9 of 9 measurements" in late
