"""The order of strategies, and where the rounds do not tell it. Pure functions over a run's rounds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from .summaries import Metric, Summaries, Summary

# With fewer rounds chance alone would put one ahead in each of them too often.
LEAST_ROUNDS = 3


class Verdict(Enum):
    """What can be said of two strategies."""

    AHEAD = "ahead"
    BEHIND = "behind"
    ALIKE = "within noise"
    UNKNOWN = "too few rounds"


def compare(one: Summary, other: Summary, metric: Metric) -> Verdict:
    """How the one did against the other, where each was measured in turn.

    It is ahead if it was better in every round and its median is better by the metric's margin; so is the other. Everything
    else is noise.
    """
    mine, theirs = one.values(metric), other.values(metric)
    rounds = mine.keys() & theirs.keys()
    if len(rounds) < LEAST_ROUNDS:
        return Verdict.UNKNOWN
    pairs = [(mine[number], theirs[number]) for number in rounds]
    if _is_better(pairs, metric):
        return Verdict.AHEAD
    if _is_better([pair[::-1] for pair in pairs], metric):
        return Verdict.BEHIND
    return Verdict.ALIKE


def _is_better(pairs: Sequence[tuple[float, float]], metric: Metric) -> bool:
    # From here on more is better.
    found = [pair[::-1] for pair in pairs] if metric.less_is_better else pairs
    ours, others = (statistics.median(values) for values in zip(*found, strict=True))
    return all(more > less for more, less in found) and ours >= metric.margin * others


@dataclass(frozen=True)
class Place:
    """One strategy's place in an order, and what can be said of it and the one before."""

    summary: Summary
    value: float
    after: Verdict | None


def rank(summaries: Iterable[Summary], metric: Metric) -> list[Place]:
    """The best median first; empty when nothing was measured."""
    known = [(found.median(metric), found) for found in summaries]
    measured = [(value, found) for value, found in known if value is not None]
    measured.sort(key=lambda pair: pair[0], reverse=not metric.less_is_better)
    earlier = [None, *(found for _, found in measured)]
    return [
        Place(found, value, compare(before, found, metric) if before else None)
        for before, (value, found) in zip(earlier, measured, strict=False)
    ]


@dataclass(frozen=True)
class Crossover:
    """One strategy against another over the numbers of workers.

    Attributes:
        accounts: The kind of accounts.
        strategy: The one.
        rival: The other.
        ahead: Numbers of workers with which the one is ahead.
        alike: Numbers of workers with which the difference is within noise.
        behind: Numbers of workers with which the other is ahead.
    """

    accounts: str
    strategy: str
    rival: str
    ahead: tuple[int, ...]
    alike: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def between(self) -> tuple[int, int] | None:
        """The last number of workers with which the one wins, and the first with which it loses.

        None if it does not do both, or wins again after it lost.
        """
        if not (self.ahead and self.behind) or max(self.ahead) > min(self.behind):
            return None
        return max(self.ahead), min(self.behind)


def cross(
    summaries: Summaries, accounts: str, strategy: str, rival: str, metric: Metric
) -> Crossover | None:
    """Where the strategy stops winning; None if the two were not measured together often enough."""
    verdicts: dict[Verdict, list[int]] = {verdict: [] for verdict in Verdict}
    for kind, workers, name in summaries:
        other = summaries.get((kind, workers, rival))
        if (kind, name) == (accounts, strategy) and other is not None:
            verdict = compare(summaries[kind, workers, name], other, metric)
            verdicts[verdict].append(workers)
    told = [verdicts[verdict] for verdict in (Verdict.AHEAD, Verdict.ALIKE, Verdict.BEHIND)]
    if not any(told):
        return None
    ahead, alike, behind = (tuple(sorted(counts)) for counts in told)
    return Crossover(accounts, strategy, rival, ahead, alike, behind)
