"""The picture of a map: in each cell which way is ahead, by how much, and how sure that is. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from demo_project.bank.compare.rankings import Verdict, compare, rank
from demo_project.bank.compare.summaries import (
    RETRIES,
    ROUND_TRIPS,
    THROUGHPUT,
    Metric,
    Summary,
)
from demo_project.bank.models import MapMeasurement
from demo_project.bank.strategies import STRATEGIES, Kind, label_of

from .survey import CONTENDERS, Survey

SLIGHT, CLEAR = 1.5, 3.0
"""From these factors on, a cell has a stronger colour."""
LARGE = 10
"""From this factor on, a margin has no decimals."""


class Side(Enum):
    """Which kind of method is ahead in a cell."""

    LOCK = "lock"
    OPTIMISTIC = "optimistic"
    NONE = "none"
    OPEN = "open"


@dataclass(frozen=True)
class Cell:
    """One cell of the grid.

    Attributes:
        latency_ms: The round trip that was added.
        work_ms: The work between reading and writing.
        accounts: How many accounts there were.
        side: Who is ahead.
        margin: By which factor the better side is ahead.
        noise: How far the rounds of the two sides lie from their medians, in per cent at most.
        ranking: What was measured by each strategy, the fastest first.
    """

    latency_ms: float
    work_ms: float
    accounts: int
    side: Side
    margin: float | None
    noise: float | None
    ranking: tuple[Summary, ...]

    @property
    def strength(self) -> int:
        """From 1 to 3, how strong the colour is; 0 where nobody is ahead."""
        if self.side not in (Side.LOCK, Side.OPTIMISTIC) or self.margin is None:
            return 0
        # As it is shown, so that cells that say the same have the same colour.
        margin = round(self.margin, 1)
        return 1 + (margin >= SLIGHT) + (margin >= CLEAR)

    @property
    def winner(self) -> Summary | None:
        """The method that is ahead; None where none is."""
        return self.best(self.side) if self.strength else None

    @property
    def times(self) -> str:
        """The margin as a number that is short."""
        margin = self.margin or 0.0
        return f"{margin:.0f}" if margin >= LARGE else f"{margin:.1f}"

    @property
    def text(self) -> str:
        """What the cell says in a terminal: the method that is ahead and its margin."""
        if self.winner is not None:
            return f"{self.winner.strategy} {self.times}"
        return "no difference" if self.side is Side.NONE else "not yet known"

    @property
    def leader(self) -> str:
        """While too few rounds are measured: the label of the method that leads."""
        is_open = self.side is Side.OPEN and self.margin is not None
        return self.ranking[0].label if is_open else ""

    @property
    def figures(self) -> list[tuple[str, ...]]:
        """Of each strategy its label, its throughput with its noise, its retries and its round trips."""
        return [
            (
                summary.label,
                _with_noise(summary, THROUGHPUT),
                *(metric.show(summary.median(metric)) for metric in (RETRIES, ROUND_TRIPS)),
            )
            for summary in self.ranking
        ]

    def median(self, strategy: str, metric: Metric = THROUGHPUT) -> float | None:
        """The median of one strategy; None if it was not measured."""
        found = [summary for summary in self.ranking if summary.strategy == strategy]
        return found[0].median(metric) if found else None

    def best(self, side: Side) -> Summary | None:
        """The fastest strategy of a side."""
        found = (summary for summary in self.ranking if side_of(summary.strategy) is side)
        return next(found, None)


@dataclass(frozen=True)
class Grid:
    """The cells with one latency, row by row."""

    latency_ms: float
    round_trip_ms: float | None
    accounts: tuple[int, ...]
    rows: tuple[tuple[float, tuple[Cell, ...]], ...]

    @property
    def round_trips(self) -> str:
        """How often a transfer went to the server, from the cell with the fewest trips to the one with the most."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for summary in (one for _, cells in self.rows for cell in cells for one in cell.ranking):
            trips = summary.median(ROUND_TRIPS)
            if trips is not None:
                found[summary.strategy].append(trips)
        told = [f"{label_of(name)} {_from_to(found[name])}" for name in CONTENDERS if found[name]]
        return f"Round trips for a transfer: {', '.join(told)}." if told else ""


@dataclass(frozen=True)
class Picture:
    """A map that is drawn."""

    survey: Survey
    grids: tuple[Grid, ...]

    @property
    def cells(self) -> list[Cell]:
        """All cells, the least latency, work and accounts first."""
        return [cell for grid in self.grids for _, row in grid.rows for cell in row]

    def at(self, latency_ms: float, work_ms: float, accounts: int) -> Cell:
        """The cell of these values."""
        wanted = latency_ms, work_ms, accounts
        return next(
            cell for cell in self.cells if (cell.latency_ms, cell.work_ms, cell.accounts) == wanted
        )

    @property
    def verdict(self) -> str:
        """The map in a sentence."""
        sides = [cell.side for cell in self.cells]
        counts = [(side, sides.count(side)) for side in Side if side in sides]
        parts = [f"{_VERBS[side]} in {count}" for side, count in counts]
        return f"Of {len(sides)} cells: {', '.join(parts)}."


_VERBS = {
    Side.LOCK: "locks are ahead",
    Side.OPTIMISTIC: "optimistic transactions are ahead",
    Side.NONE: "there is no difference beyond noise",
    Side.OPEN: "too few rounds were measured",
}
_BY_KIND = {Kind.LOCK: Side.LOCK, Kind.OPTIMISTIC: Side.OPTIMISTIC}


def side_of(strategy: str) -> Side:
    """Which side a strategy is on."""
    return _BY_KIND[STRATEGIES[strategy].kind] if strategy in STRATEGIES else Side.OPEN


def picture_of(
    survey: Survey, rows: Iterable[MapMeasurement], round_trips_ms: Sequence[float] = ()
) -> Picture:
    """Draw what has been measured so far."""
    by_spot: defaultdict[tuple[float, float, int], list[MapMeasurement]] = defaultdict(list)
    for row in rows:
        by_spot[row.latency_ms, row.work_ms, row.accounts].append(row)

    def cells(latency: float, work: float) -> Iterator[Cell]:
        for accounts in survey.all_accounts:
            yield _cell(latency, work, accounts, by_spot[latency, work, accounts])

    return Picture(
        survey,
        tuple(
            Grid(
                latency,
                round_trips_ms[number] if number < len(round_trips_ms) else None,
                survey.all_accounts,
                tuple((work, tuple(cells(latency, work))) for work in survey.all_work_ms),
            )
            for number, latency in enumerate(survey.all_latency_ms)
        ),
    )


def _cell(latency: float, work: float, accounts: int, rows: Sequence[MapMeasurement]) -> Cell:
    by_strategy: defaultdict[str, list[MapMeasurement]] = defaultdict(list)
    for row in rows:
        by_strategy[row.strategy].append(row)
    summaries = [
        Summary(str(accounts), found[0].workers, strategy, tuple(found))
        for strategy, found in by_strategy.items()
    ]
    ranking = tuple(place.summary for place in rank(summaries, THROUGHPUT))
    cell = Cell(latency, work, accounts, Side.OPEN, None, None, ranking)
    lock, optimistic = cell.best(Side.LOCK), cell.best(Side.OPTIMISTIC)
    if lock is None or optimistic is None:
        return cell
    sides = {
        Verdict.AHEAD: Side.LOCK,
        Verdict.BEHIND: Side.OPTIMISTIC,
        Verdict.ALIKE: Side.NONE,
        Verdict.UNKNOWN: Side.OPEN,
    }
    side = sides[compare(lock, optimistic, THROUGHPUT)]
    less, more = sorted(one.median(THROUGHPUT) or 0.0 for one in (lock, optimistic))
    margin = more / less if less else None
    noise = max((one.spread(THROUGHPUT) or 0.0 for one in (lock, optimistic)), default=None)
    return Cell(latency, work, accounts, side, margin, noise, ranking)


def _with_noise(summary: Summary, metric: Metric) -> str:
    spread = summary.spread(metric)
    shown = metric.show(summary.median(metric))
    return shown if spread is None else f"{shown} ±{spread:.0f}%"


def _from_to(trips: Sequence[float]) -> str:
    least, most = (ROUND_TRIPS.show(value) for value in (min(trips), max(trips)))
    return least if least == most else f"{least} to {most}"
