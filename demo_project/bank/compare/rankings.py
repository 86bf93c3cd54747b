"""The order of strategies, and where one stops being better. Pure functions over a run's rounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .gate import Judgement, Verdict, judge
from .summaries import RETRIES, Metric, Summaries, Summary


def compare(one: Summary, other: Summary, metric: Metric) -> Judgement:
    """What the rounds say of the one and the other; see `judge`."""
    return judge(one.values(metric), other.values(metric), less_is_better=metric.less_is_better)


def compare_work(one: Summary, other: Summary) -> Judgement:
    """What the rounds say of how often each transfer's work was done, of which less is better."""
    mine, theirs = (
        {number: 1 + retries for number, retries in found.values(RETRIES).items()}
        for found in (one, other)
    )
    return judge(mine, theirs, less_is_better=True)


@dataclass(frozen=True)
class Place:
    """One strategy's place in an order, and what can be said of the one before and of it."""

    summary: Summary
    value: float
    after: Judgement | None


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
        better: Numbers of workers with which the one is better.
        worse: Numbers of workers with which the other is better.
        no_difference: Numbers of workers with which there is no difference.
        not_decided: Numbers of workers with which the rounds disagree.
    """

    accounts: str
    strategy: str
    rival: str
    better: tuple[int, ...]
    worse: tuple[int, ...]
    no_difference: tuple[int, ...]
    not_decided: tuple[int, ...]

    @property
    def between(self) -> tuple[int, int] | None:
        """The last number of workers with which one is better, and the first where the other is.

        None if either never is, or the one is better again after that.
        """
        if not (self.better and self.worse) or max(self.better) > min(self.worse):
            return None
        return max(self.better), min(self.worse)


def cross(
    summaries: Summaries, accounts: str, strategy: str, rival: str, metric: Metric
) -> Crossover | None:
    """Where the strategy is better; None if the two were not measured together often enough."""
    verdicts: dict[Verdict, list[int]] = {verdict: [] for verdict in Verdict}
    for kind, workers, name in summaries:
        other = summaries.get((kind, workers, rival))
        if (kind, name) == (accounts, strategy) and other is not None:
            found = compare(summaries[kind, workers, name], other, metric)
            if found.is_enough:
                verdicts[found.verdict].append(workers)
    if not any(verdicts.values()):
        return None
    counts = (tuple(sorted(verdicts[verdict])) for verdict in Verdict)
    return Crossover(accounts, strategy, rival, *counts)
