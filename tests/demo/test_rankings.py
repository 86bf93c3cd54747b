"""What the page says of a run: orders only where the rounds show them, and where WATCH stops winning."""

from __future__ import annotations

import pytest

from demo_project.bank.compare.findings import findings_of, orders_of
from demo_project.bank.compare.rankings import Verdict, compare, cross, rank
from demo_project.bank.compare.summaries import (
    P99,
    RETRIES,
    ROUND_TRIPS,
    THROUGHPUT,
    Summaries,
    Summary,
    money_of,
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


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ((120, 130, 140), (100, 110, 100), Verdict.AHEAD),
        ((100, 110, 100), (120, 130, 140), Verdict.BEHIND),
        # Better each time, but by so little that the next run may say otherwise.
        ((104, 105, 106), (100, 101, 102), Verdict.ALIKE),
        ((118, 119, 120), (100, 101, 102), Verdict.ALIKE),
        # Far better in the median, but not in each round.
        ((200, 200, 90), (100, 100, 100), Verdict.ALIKE),
        ((0, 0, 0), (0, 0, 0), Verdict.ALIKE),
        ((200, 200), (100, 100), Verdict.UNKNOWN),
    ],
)
def test_one_is_ahead_if_it_is_better_in_every_round_and_clearly_so_in_the_median(
    mine: tuple[float, ...], theirs: tuple[float, ...], expected: Verdict
) -> None:
    assert expected is compare(summary(*mine), summary(*theirs), THROUGHPUT)


def test_rounds_are_compared_with_the_same_rounds_of_the_other() -> None:
    # The machine slowed down during the run; in each round the one was twice as fast.
    assert Verdict.AHEAD is compare(summary(400, 200, 100), summary(200, 100, 50), THROUGHPUT)


def test_only_rounds_that_both_have_count() -> None:
    cut_off = summary(400, 400)
    assert Verdict.UNKNOWN is compare(summary(200, 200, 200), cut_off, THROUGHPUT)


def test_less_is_better_where_the_metric_says_so() -> None:
    def with_p99(value: float) -> Summary:
        rows = [measurement("hot", 2, "script", round=n, p99_ms=value) for n in (1, 2, 3)]
        return Summary("hot", 2, "script", tuple(rows))

    assert Verdict.AHEAD is compare(with_p99(5), with_p99(9), P99)
    assert Verdict.ALIKE is compare(with_p99(5), with_p99(7), P99)
    assert [5, 9] == [place.value for place in rank([with_p99(9), with_p99(5)], P99)]


def test_an_order_has_the_best_median_first_and_says_what_each_place_is_worth() -> None:
    places = rank(
        [
            summary(100, 100, 100, strategy="book_lua"),
            summary(300, 310, 290, strategy="script"),
            summary(105, 99, 101, strategy="redis_lock"),
        ],
        THROUGHPUT,
    )
    assert [
        ("script", None),
        ("redis_lock", Verdict.AHEAD),
        ("book_lua", Verdict.ALIKE),
    ] == [(place.summary.strategy, place.after) for place in places]


def test_the_crossover_is_between_the_last_win_and_the_first_defeat() -> None:
    found = cross(summaries(HOT_OPTIMISTIC), "hot", "optimistic", "redis_lock", THROUGHPUT)
    assert found is not None
    assert ((2,), (1, 5), (10,)) == (found.ahead, found.alike, found.behind)
    assert (2, 10) == found.between


def test_there_is_no_crossover_for_one_that_always_or_never_wins() -> None:
    two: Rates = {("hot", 2, "optimistic"): [9, 9, 9], ("hot", 2, "redis_lock"): [5, 5, 5]}
    always = cross(summaries(two), "hot", "optimistic", "redis_lock", THROUGHPUT)
    never = cross(summaries(two), "hot", "redis_lock", "optimistic", THROUGHPUT)
    assert always is not None
    assert never is not None
    assert (None, None) == (always.between, never.between)
    assert cross(summaries(two), "spread", "optimistic", "redis_lock", THROUGHPUT) is None


def test_a_finding_tells_the_crossover_and_where_noise_hides_it() -> None:
    assert (
        f"In this run, on hot accounts, {OPTIMISTIC} stops winning against redis_lock packed between 2 and 10 workers: "
        "ahead with 2, within noise with 1 and 5, behind with 10."
    ) in texts(HOT_OPTIMISTIC)


@pytest.mark.parametrize(
    ("optimistic", "words"),
    [
        ({1: 900, 2: 900}, "always wins against redis_lock packed: ahead with 1 and 2."),
        ({1: 100, 2: 100}, "never wins against redis_lock packed: behind with 1 and 2."),
        (
            {1: 100, 2: 900},
            "wins and loses in turn against redis_lock packed: ahead with 2, behind with 1.",
        ),
        (
            {1: 500, 2: 900},
            "wins with some numbers of workers against redis_lock packed: ahead with 2, within noise with 1.",
        ),
        (
            {1: 500, 2: 100},
            "loses with some numbers of workers against redis_lock packed: within noise with 1, behind with 2.",
        ),
        ({1: 500}, "is nowhere clearly ahead of or behind redis_lock packed: within noise with 1."),
    ],
)
def test_a_finding_without_crossover_says_who_wins(
    optimistic: dict[int, float], words: str
) -> None:
    rates: Rates = {
        **{("hot", count, "optimistic"): [rate] * 3 for count, rate in optimistic.items()},
        **{("hot", count, "redis_lock"): [500] * 3 for count in optimistic},
    }
    (found,) = [text for text in texts(rates) if f"on hot accounts, {OPTIMISTIC}" in text]
    assert found.endswith(words)


def test_an_order_in_words_claims_no_more_than_the_rounds_show() -> None:
    order = next(text for text in texts(HOT_OPTIMISTIC) if "1 worker," in text)
    assert order == (
        "Redis, in memory, hot accounts, 1 worker, by throughput (transfers per second, more is better): "
        f"{OPTIMISTIC} (1,000, 2.0 trips) is within noise of redis_lock packed (1,000, 2.0 trips)."
    )
    order = next(
        text for text in texts(HOT_OPTIMISTIC) if "by throughput" in text and "10 w" in text
    )
    assert order.endswith(
        f"redis_lock packed (1,400, 2.0 trips) is ahead of {OPTIMISTIC} (500, 2.0 trips)."
    )


def test_too_few_rounds_make_no_order_and_the_page_says_so() -> None:
    found = texts({key: rates[:2] for key, rates in HOT_OPTIMISTIC.items()})
    assert any("made 2 times. To tell an order from noise, make 3 rounds" in text for text in found)
    assert not any("ahead" in text or "behind" in text for text in found)


def test_a_machine_busy_with_other_work_is_mentioned() -> None:
    assert any("processors 80% busy" in text for text in texts(HOT_OPTIMISTIC, busy=80))
    assert not any("busy" in text for text in texts(HOT_OPTIMISTIC, busy=10))


def test_the_unsafe_way_takes_no_place_in_an_order() -> None:
    rates: Rates = {**HOT_OPTIMISTIC, ("hot", 10, "unprotected"): [9000, 9000, 9000]}
    assert not any("No locking" in text and "ahead" in text for text in texts(rates))


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


def test_the_verdict_ranks_the_packed_ways_and_fits_three_lines() -> None:
    rates: Rates = {
        ("hot", 10, "redis_lock"): [2000, 2100, 1900],
        ("hot", 10, "watch_packed"): [1000, 1050, 950],
        ("hot", 10, "optimistic"): [1900, 2000, 1950],
        ("hot", 10, "watch"): [9000, 9000, 9000],
        ("hot", 10, "watch_packed_aof"): [9000, 9000, 9000],
        ("hot", 10, "unprotected"): [9000, 9000, 9000],
        ("spread", 10, "redis_lock"): [1000, 1000, 1000],
        ("spread", 10, "watch_packed"): [3000, 3000, 3000],
    }
    money, hot, spread = verdict_of(summaries(rates))
    assert money.short.startswith("Money: safe ways right in 21 of 21 measurements")
    assert hot.short == "Hot, 10 workers: redis_lock 2,000/s: like optimistic, 2.0x watch_packed."
    assert spread.short == "Spread, 10 workers: watch_packed 3,000/s: 3.0x redis_lock."
    assert all(len(line.short) <= 80 for line in (money, hot, spread))
    assert (
        "On 2 accounts with 10 workers, redis_lock packed made 2,000 transfers/s (2.0 round trips each): within noise of "
        "optimistic with 1,950 (2.0 round trips each), and 2.0 times as many as WATCH packed with 1,000 (2.0 round trips each)."
    ) == hot.text
    assert [] == verdict_of({})


def test_the_verdict_accuses_a_safe_way_that_lost_money() -> None:
    rows = [measurement("hot", 2, "optimistic", missing_cents=1), measurement("hot", 2, "script")]
    money = verdict_of(summarise_rounds(rows))[0]
    assert (False, "Money: WRONG with optimistic") == (money.is_good, money.short)


def test_no_order_is_made_of_fairness() -> None:
    rows = [
        measurement("hot", 10, name, round=number, fairness=fairness)
        for name, fairness in (("optimistic", 0.2), ("redis_lock", 1.0))
        for number in (1, 2, 3)
    ]
    orders = {order.metric for order in orders_of(summarise_rounds(rows))}
    assert {THROUGHPUT, P99} == orders


def test_a_safe_strategy_that_lost_money_is_accused() -> None:
    rows = [measurement("hot", 2, "optimistic", missing_cents=1), measurement("hot", 2, "script")]
    found = [finding.text for finding in findings_of(summarise_rounds(rows))]
    assert f"Money was lost, made up or overdrawn, which must not happen, by {OPTIMISTIC}." in found


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({}, "ok"),
        ({"missing_cents": 1234}, "12.34 lost"),
        ({"missing_cents": -5}, "0.05 made up"),
        ({"overdrawn": 2}, "2 overdrawn"),
        ({"overdrawn": 2, "missing_cents": -5}, "0.05 made up"),
    ],
)
def test_the_money_of_rounds_is_told_by_the_worst_of_them(
    figures: dict[str, int], words: str
) -> None:
    money = money_of([measurement("hot", 2, "script"), measurement("hot", 2, "script", **figures)])
    assert words == str(money)
    assert money.conserved == (words == "ok")


def test_medians_ranges_and_spread_of_the_rounds() -> None:
    found = summary(80, 100, 110)
    assert 100 == found.median(THROUGHPUT)
    assert (80, 110) == found.range(THROUGHPUT)
    assert 15 == found.spread(THROUGHPUT)
    assert summary(100).spread(THROUGHPUT) is None


def test_what_was_not_measured_is_a_dash() -> None:
    found = Summary("hot", 2, "script", (measurement("hot", 2, "script", round_trips=None),))
    assert "-" == ROUND_TRIPS.show(found.median(ROUND_TRIPS))
    assert "-" == ROUND_TRIPS.show(0.0)
    assert "0.00" == RETRIES.show(0.0)
    assert found.range(ROUND_TRIPS) is None
    assert [] == rank([found], ROUND_TRIPS)
    assert "0.50" == RETRIES.show(found.median(RETRIES))


def test_nothing_is_said_of_a_run_that_measured_nothing() -> None:
    assert [] == findings_of({})
