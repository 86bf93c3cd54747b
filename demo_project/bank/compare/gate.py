"""Judges whether one method is ahead of another, in one of three words, by the rounds of both.

Every statement that sets one thing above another passes this gate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

LEAST_ROUNDS = 3
"""With fewer rounds chance alone would put one ahead in each of them too often."""

ALIKE = 1.1
"""Within this factor, either way, there is no difference."""

_NEXT_TO_NOTHING = 1e-9


class Verdict(Enum):
    """What can be said of the one and the other."""

    BETTER = "better"
    WORSE = "the other is better"
    NO_DIFFERENCE = "no difference"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Judgement:
    """What the rounds say of the one and the other.

    Attributes:
        verdict: The word for it.
        times: How many times as good the one was, by the median of the rounds.
        least: In the round that was worst for the one.
        most: In the round that was best for it.
        rounds: In how many rounds both were measured.
    """

    verdict: Verdict
    times: float = 1.0
    least: float = 1.0
    most: float = 1.0
    rounds: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether there are rounds enough to decide anything."""
        return self.rounds >= LEAST_ROUNDS

    def turned(self) -> Judgement:
        """The same, said of the other."""
        words = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
        verdict = words.get(self.verdict, self.verdict)
        return Judgement(verdict, 1 / self.times, 1 / self.most, 1 / self.least, self.rounds)

    @property
    def factors(self) -> str:
        """By how much, as people read it."""
        return f"{_times(self.times)}, {_times(self.least)} to {_times(self.most)} in the rounds"


def judge(
    mine: Mapping[int, float], theirs: Mapping[int, float], *, less_is_better: bool = False
) -> Judgement:
    """Compare one method with another, round by round, so that the machine's load meets both.

    No difference: in each round the two are within 10 %. Better: the one won each round, and its
    lead in the median is greater than the spread. The spread is half the way from its worst round
    to its best, in factors. Not decided: all the rest, and fewer than `LEAST_ROUNDS` rounds.

    Args:
        mine: What was measured of the one, by round.
        theirs: The same of the other.
        less_is_better: Whether the smallest is the best.
    """
    rounds = sorted(mine.keys() & theirs.keys())
    if not rounds:
        return Judgement(Verdict.NOT_DECIDED)
    good, other = (theirs, mine) if less_is_better else (mine, theirs)
    ratios = [_ratio(good[number], other[number]) for number in rounds]
    middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
    found = Judgement(Verdict.NOT_DECIDED, middle, least, most, len(rounds))
    return replace(found, verdict=_word(found))


def _word(found: Judgement) -> Verdict:
    if not found.is_enough:
        return Verdict.NOT_DECIDED
    if found.least >= 1 / ALIKE and found.most <= ALIKE:
        return Verdict.NO_DIFFERENCE
    if _is_better(found):
        return Verdict.BETTER
    return Verdict.WORSE if _is_better(found.turned()) else Verdict.NOT_DECIDED


def _is_better(found: Judgement) -> bool:
    return found.least > 1 and found.times > math.sqrt(found.most / found.least)


def _ratio(good: float, other: float) -> float:
    # Of two that did nothing, none is better.
    return max(good, _NEXT_TO_NOTHING) / max(other, _NEXT_TO_NOTHING)


def _times(factor: float) -> str:
    if factor >= 1000:  # noqa: PLR2004 - beside nothing
        return "far more"
    decimals = 0 if factor >= 10 else 1 if factor >= 2 else 2  # noqa: PLR2004 - as many as mean something
    return f"{factor:.{decimals}f}x"
