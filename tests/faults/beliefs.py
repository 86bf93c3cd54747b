"""What holders believed at which time, and what of that contradicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Belief(NamedTuple):
    """From when until when one holder had reason to believe that it holds."""

    start: float
    until: float
    fence: int


class Span(NamedTuple):
    """A stretch of time."""

    start: float
    end: float


def count_overlaps(beliefs: Iterable[Belief], but: Sequence[Span] = ()) -> int:
    """Return how many began while an earlier one lasted, and not in a span of `but`."""
    overlaps, latest = 0, float("-inf")
    for belief in sorted(belief for belief in beliefs if belief.until > belief.start):
        overlaps += belief.start < latest and not _is_in(belief.start, but)
        latest = max(latest, belief.until)
    return overlaps


def count_falling(beliefs: Iterable[Belief], but: Sequence[Span] = ()) -> int:
    """Return how many have no higher token than one that had ended before they began, not in a span of `but`.

    One that had ended before it began, by its own clock, believed nothing.
    """
    everything = [belief for belief in beliefs if belief.until > belief.start]
    ended = sorted(everything, key=lambda belief: belief.until)
    falling, highest, position = 0, 0, 0
    for belief in sorted(everything):
        while position < len(ended) and ended[position].until <= belief.start:
            highest = max(highest, ended[position].fence)
            position += 1
        falling += belief.fence <= highest and not _is_in(belief.start, but)
    return falling


def _is_in(moment: float, spans: Sequence[Span]) -> bool:
    return any(span.start < moment <= span.end for span in spans)
