"""What a run found, in sentences; each is worded from the figures, or says what they don't tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from demo_project.bank.strategies import STRATEGIES, Durability, Kind, durability_of, label_of

from .gate import LEAST_ROUNDS, Verdict
from .rankings import Crossover, Place, cross, rank
from .summaries import P99, ROUND_TRIPS, THROUGHPUT, Metric, Summaries, money_of

# From here on others disturb the run, however its rounds agree with each other.
BUSY_PERCENT = 25


@dataclass(frozen=True)
class Finding:
    """One sentence; ``main`` ones belong to the story, the others are for the curious."""

    topic: str
    text: str
    main: bool = True


def findings_of(summaries: Summaries, busy_percent: float = 0) -> list[Finding]:
    """Everything that can be said of a run, the most important first; empty without rounds.

    Args:
        summaries: The rounds, put together.
        busy_percent: How busy other programs kept the processors when it began.
    """
    if not summaries:
        return []
    return [
        *_money(summaries),
        *_doubts(summaries, busy_percent),
        *_crossovers(summaries),
        *_orders(summaries),
    ]


def crossovers_of(summaries: Summaries) -> list[Crossover]:
    """Where optimistic strategies beat locks of the same durability, by kind of accounts."""
    kinds = sorted({accounts for accounts, _, _ in summaries})
    found = (
        cross(summaries, kind, one, other, THROUGHPUT)
        for kind, one, other in product(kinds, _named(Kind.OPTIMISTIC), _named(Kind.LOCK))
        if durability_of(one) is durability_of(other)
    )
    return [crossover for crossover in found if crossover]


def is_main(crossover: Crossover) -> bool:
    """Whether it is fair, in memory: both take as few round trips as they can."""
    both = (crossover.strategy, crossover.rival)
    return all(
        STRATEGIES[name].is_packed and durability_of(name) is Durability.MEMORY for name in both
    )


def _named(kind: Kind) -> list[str]:
    return [name for name, strategy in STRATEGIES.items() if strategy.kind is kind]


def _money(summaries: Summaries) -> Iterator[Finding]:
    safe = [found for found in summaries.values() if _is_safe(found.strategy)]
    money = money_of(row for found in safe for row in found.rows)
    if safe and money.conserved:
        count = f"{money.measurements:,}"
        text = (
            f"The safe strategies conserved the money to the cent in {count} of {count} "
            "measurements."
        )
        yield Finding("money", text)
    elif safe:
        wrong = sorted({found.label for found in safe if not found.money.conserved})
        text = f"Money was lost, made up or overdrawn, which must not happen, by {listed(wrong)}."
        yield Finding("money", text)
    for name in _named(Kind.WARNING):
        rows = [row for found in summaries.values() if found.strategy == name for row in found.rows]
        if rows:
            careless = money_of(rows)
            yield Finding(
                "money",
                f"{label_of(name)} ended with the wrong amount of money in {careless.wrong:,} of "
                f"{careless.measurements:,} measurements"
                + (
                    f", by up to {abs(careless.missing_cents) / 100:,.2f}."
                    if careless.wrong
                    else "."
                )
                + (
                    f" It let accounts pay out more than they had, {_times(careless.overdrawn)}."
                    if careless.overdrawn
                    else ""
                ),
            )
    if money.overdrafts:
        text = (
            f"The safe strategies correctly refused {money.prevented:,} of {money.overdrafts:,} "
            "overdrafts."
        )
        yield Finding("overdrafts", text)


def _is_safe(name: str) -> bool:
    return name not in STRATEGIES or STRATEGIES[name].is_safe


def _doubts(summaries: Summaries, busy_percent: float) -> Iterator[Finding]:
    if busy_percent >= BUSY_PERCENT:
        yield Finding(
            "machine",
            f"Other programs kept the processors {busy_percent:.0f}% busy when the run began. "
            "A quiet machine may show other speeds and another order.",
        )
    rounds = max(len(found.rows) for found in summaries.values())
    if rounds < LEAST_ROUNDS:
        yield Finding(
            "noise",
            f"Each measurement was made {_times(rounds)}. So nothing is decided: that takes "
            f"{LEAST_ROUNDS} rounds.",
        )


def _crossovers(summaries: Summaries) -> Iterator[Finding]:
    for found in crossovers_of(summaries):
        yield Finding("crossover", describe_crossover(found), main=is_main(found))


def describe_crossover(found: Crossover) -> str:
    """Where the one is better than the other, in a sentence."""
    one, other = label_of(found.strategy), label_of(found.rival)
    parts = [
        f"{words} with {listed(counts)}"
        for words, counts in (
            (f"{one} is better", found.better),
            (f"{other} is better", found.worse),
            (Verdict.NO_DIFFERENCE.value, found.no_difference),
            (Verdict.NOT_DECIDED.value, found.not_decided),
        )
        if counts
    ]
    return (
        f"In this run, on {found.accounts} accounts, {one} against {other}, by number of workers: "
        f"{', '.join(parts)}."
    )


@dataclass(frozen=True)
class Order:
    """The safe strategies of one durability by one metric, the best first.

    Compared with so many workers on one kind of accounts.
    """

    metric: Metric
    durability: Durability
    accounts: str
    workers: int
    places: tuple[Place, ...]


def orders_of(summaries: Summaries) -> Iterator[Order]:
    """All orders that the rounds are enough for.

    None by fairness, whose bound of 1 leaves too little to be ahead by.
    """
    places_of = dict.fromkeys(
        (durability_of(name), kind, count) for kind, count, name in summaries if _is_safe(name)
    )
    for metric, (durability, accounts, workers) in product((THROUGHPUT, P99), places_of):
        places = rank(
            [
                found
                for (kind, count, name), found in summaries.items()
                if (durability_of(name), kind, count) == (durability, accounts, workers)
                and _is_safe(name)
            ],
            metric,
        )
        links = [place.after for place in places if place.after]
        if links and all(link.is_enough for link in links):
            yield Order(metric, durability, accounts, workers, tuple(places))


def _orders(summaries: Summaries) -> Iterator[Finding]:
    most = max(workers for _, workers, _ in summaries)
    for order in orders_of(summaries):
        text = describe_order(order)
        yield Finding(topic_of(order.metric), text, main=order.workers == most)


def topic_of(metric: Metric) -> str:
    """The topic of the findings that order the strategies by a metric."""
    return f"order by {metric.field}"


def describe_order(order: Order) -> str:
    """The order in a sentence that claims no more than the rounds show."""
    metric = order.metric
    names = [f"{place.summary.label} ({_shown(place, metric)})" for place in order.places]
    links = [_link(names[0], names[1], order.places[1])]
    # Sorted by the median, nobody is worse than one that comes later. Each has its figures once.
    links += [
        _link(before.summary.label, name, after)
        for (before, after), name in zip(pairwise(order.places[1:]), names[2:], strict=True)
    ]
    count = "1 worker" if order.workers == 1 else f"{order.workers} workers"
    by = metric.title[0].lower() + metric.title[1:]
    return (
        f"{order.durability.value}, {order.accounts} accounts, {count}, by {by} "
        f"({metric.unit}, {metric.direction}): {'; '.join(links)}."
    )


def _link(one: str, other: str, after: Place) -> str:
    verdict = after.after.verdict if after.after else Verdict.NOT_DECIDED
    if verdict is Verdict.BETTER:
        return f"{one} is better than {other}"
    return f"{verdict.value} between {one} and {other}"


def _shown(place: Place, metric: Metric) -> str:
    """The value, and how many round trips it took."""
    trips = place.summary.median(ROUND_TRIPS)
    value = metric.show(place.value)
    return f"{value}, {ROUND_TRIPS.show(trips)} trips" if trips else value


def listed(values: Sequence[object]) -> str:
    """The values, with commas and an "and"."""
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
