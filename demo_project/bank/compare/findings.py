"""What a run found, in sentences; each is worded from the figures and says so where these do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from demo_project.bank.strategies import STRATEGIES, Durability, Kind, durability_of, label_of

from .rankings import LEAST_ROUNDS, Crossover, Place, Verdict, cross, rank
from .summaries import P99, ROUND_TRIPS, THROUGHPUT, Metric, Summaries, money_of

# From here on others disturb the run, however its rounds agree with each other.
BUSY_PERCENT = 25


@dataclass(frozen=True)
class Finding:
    """One sentence; ``main`` ones belong to the story, the others to who wants to know everything."""

    topic: str
    text: str
    main: bool = True


def findings_of(summaries: Summaries, busy_percent: float = 0) -> list[Finding]:
    """Everything that can be said of a run, the most important first; empty when nothing was measured.

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
    """Where each optimistic strategy stops winning against each lock of the same durability, by kind of accounts."""
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
        text = f"The safe strategies conserved the money to the cent in {count} of {count} measurements."
        yield Finding("money", text)
    elif safe:
        wrong = sorted({found.label for found in safe if not found.money.conserved})
        text = f"Money was lost, made up or overdrawn, which must not happen, by {_listed(wrong)}."
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
        text = f"The safe strategies correctly refused {money.prevented:,} of {money.overdrafts:,} overdrafts."
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
            f"Each measurement was made {_times(rounds)}. To tell an order from noise, make {LEAST_ROUNDS} rounds.",
        )


def _crossovers(summaries: Summaries) -> Iterator[Finding]:
    for found in crossovers_of(summaries):
        yield Finding("crossover", describe_crossover(found), main=is_main(found))


def describe_crossover(found: Crossover) -> str:
    """Where the one wins against the other, in a sentence."""
    one, other = label_of(found.strategy), label_of(found.rival)
    parts = [
        f"{words} with {_listed(counts)}"
        for words, counts in (
            ("ahead", found.ahead),
            ("within noise", found.alike),
            ("behind", found.behind),
        )
        if counts
    ]
    course = f"{_course(found)} {other}"
    if found.between:
        course += " between {} and {} workers".format(*found.between)
    return f"In this run, on {found.accounts} accounts, {one} {course}: {', '.join(parts)}."


def _course(found: Crossover) -> str:
    if found.between:
        return "stops winning against"
    if found.ahead and found.behind:
        return "wins and loses in turn against"
    if found.ahead:
        return "wins with some numbers of workers against" if found.alike else "always wins against"
    if found.behind:
        return "loses with some numbers of workers against" if found.alike else "never wins against"
    return "is nowhere clearly ahead of or behind"


@dataclass(frozen=True)
class Order:
    """The safe strategies of one durability by one metric, with so many workers on one kind of accounts; the best first."""

    metric: Metric
    durability: Durability
    accounts: str
    workers: int
    places: tuple[Place, ...]


def orders_of(summaries: Summaries) -> Iterator[Order]:
    """All orders that the rounds are enough for; none by fairness, whose bound of 1 leaves too little to be ahead by."""
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
        if len(places) > 1 and not any(place.after is Verdict.UNKNOWN for place in places):
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
    first, *others = order.places
    before, verb = f"{first.summary.label} ({_shown(first, metric)})", "is "
    links = []
    # Sorted by the median, nobody is behind one that comes later.
    for place in others:
        after = place.summary.label
        told = "ahead of" if place.after is Verdict.AHEAD else "within noise of"
        links.append(f"{before} {verb}{told} {after} ({_shown(place, metric)})")
        before, verb = after, ""
    count = "1 worker" if order.workers == 1 else f"{order.workers} workers"
    by = metric.title[0].lower() + metric.title[1:]
    return (
        f"{order.durability.value}, {order.accounts} accounts, {count}, by {by} "
        f"({metric.unit}, {metric.direction}): {'; '.join(links)}."
    )


def _shown(place: Place, metric: Metric) -> str:
    """The value, and how many round trips it took."""
    trips = place.summary.median(ROUND_TRIPS)
    value = metric.show(place.value)
    return f"{value}, {ROUND_TRIPS.show(trips)} trips" if trips else value


def _listed(values: Sequence[object]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
