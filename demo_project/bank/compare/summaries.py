"""A run's rounds put together: the median of each figure, and how far the rounds lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from demo_project.bank.models import Measurement
from demo_project.bank.strategies import label_of


@dataclass(frozen=True)
class Metric:
    """One figure of a measurement, as it is shown everywhere.

    Attributes:
        field: Its name in `Measurement`.
        title: Its name on the page.
        unit: What the numbers count, for the axis.
        decimals: How many of them are shown.
        less_is_better: Whether the smallest is the best.
        logarithmic: Whether a chart shows it so, as its values lie far apart and none is 0.
        zero_is_none: Whether 0 means that there was nothing to be counted.
    """

    field: str
    title: str
    unit: str
    decimals: int
    less_is_better: bool = True
    logarithmic: bool = False
    zero_is_none: bool = False

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        return "less is better" if self.less_is_better else "more is better"

    def show(self, value: float | None) -> str:
        """The value as text; a dash where it was not measured."""
        if value is None or (self.zero_is_none and not round(value, self.decimals)):
            return "-"
        return f"{value:,.{self.decimals}f}"


OK = "ok"
THROUGHPUT = Metric(
    "transfers_per_second",
    "Throughput",
    "transfers per second",
    0,
    less_is_better=False,
    logarithmic=True,
)
P50 = Metric("p50_ms", "Latency, median", "ms", 1, logarithmic=True)
P99 = Metric("p99_ms", "Latency, slowest 1%", "ms", 1, logarithmic=True)
RETRIES = Metric("retries_per_transfer", "Retries", "retries per successful transfer", 2)
ROUND_TRIPS = Metric("round_trips", "Round trips", "round trips per transfer", 1, zero_is_none=True)
FAIRNESS = Metric(
    "fairness", "Fairness", "Jain's index of the workers' shares", 2, less_is_better=False
)
METRICS = (THROUGHPUT, P50, P99, RETRIES, ROUND_TRIPS, FAIRNESS)


@dataclass(frozen=True)
class Summary:
    """All rounds of one strategy with one number of workers on one kind of accounts."""

    accounts: str
    workers: int
    strategy: str
    rows: tuple[Measurement, ...]

    @property
    def label(self) -> str:
        """The strategy as the page names it."""
        return label_of(self.strategy)

    def values(self, metric: Metric) -> dict[int, float]:
        """What was measured, by round."""
        found = ((row.round, getattr(row, metric.field)) for row in self.rows)
        return {number: value for number, value in found if value is not None}

    def median(self, metric: Metric) -> float | None:
        """The middle of the rounds; None when it was not measured."""
        values = self.values(metric).values()
        return statistics.median(values) if values else None

    def range(self, metric: Metric) -> tuple[float, float] | None:
        """The lowest and the highest of the rounds; None when it was not measured."""
        values = self.values(metric).values()
        return (min(values), max(values)) if values else None

    def spread(self, metric: Metric) -> float | None:
        """Half the distance from lowest to highest, in per cent of the median; None for 1 round."""
        values = self.values(metric).values()
        middle = self.median(metric)
        if len(values) < 2 or not middle:  # noqa: PLR2004 - one value has no spread
            return None
        return 50 * (max(values) - min(values)) / middle

    @cached_property
    def money(self) -> Money:
        """What became of the money, over all rounds."""
        return money_of(self.rows)


@dataclass(frozen=True)
class Money:
    """Whether the money was conserved, over several measurements.

    Attributes:
        measurements: How many there are.
        wrong: In how many of them money was missing or surplus afterwards.
        missing_cents: The largest difference; negative when money was made up.
        overdrawn: How many accounts ended below zero, or paid out more than they had.
        overdrafts: How many transfers asked for all that an account had held a moment before.
        prevented: How many of these were refused, as others had been quicker.
    """

    measurements: int
    wrong: int
    missing_cents: int
    overdrawn: int
    overdrafts: int
    prevented: int

    @property
    def conserved(self) -> bool:
        """Whether the money was right to the cent each time, and no account overdrawn."""
        return not self.wrong and not self.overdrawn

    @property
    def difference(self) -> str:
        """The largest difference in words, or "" if there was none."""
        if not self.missing_cents:
            return ""
        amount = f"{abs(self.missing_cents) / 100:,.2f}"
        return f"{amount} lost" if self.missing_cents > 0 else f"{amount} made up"

    def __str__(self) -> str:
        overdrawn = f"{self.overdrawn} overdrawn" if self.overdrawn else ""
        return self.difference or overdrawn or OK


def money_of(rows: Iterable[Measurement]) -> Money:
    """Add the measurements up."""
    found = list(rows)
    return Money(
        measurements=len(found),
        wrong=sum(row.missing_cents != 0 for row in found),
        missing_cents=max((row.missing_cents for row in found), key=abs, default=0),
        overdrawn=sum(row.overdrawn for row in found),
        overdrafts=sum(row.overdrafts for row in found),
        prevented=sum(row.prevented for row in found),
    )


Summaries = Mapping[tuple[str, int, str], Summary]


def summarise_rounds(rows: Iterable[Measurement]) -> dict[tuple[str, int, str], Summary]:
    """Put the rounds together, by accounts, workers and strategy, in the order of the plan."""
    groups: dict[tuple[str, int, str], list[Measurement]] = {}
    for row in rows:
        groups.setdefault((row.accounts, row.workers, row.strategy), []).append(row)
    return {key: Summary(*key, tuple(found)) for key, found in groups.items()}
