"""What holders believed at which time, and what of that contradicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Belief(NamedTuple):
    """From when until when one holder had reason to believe that it holds."""

    start: float
    until: float
    fence: int
    most: float = 1
    """How many may believe at the same time, itself included: 1 of an exclusive hold, as many as
    like of a shared one.
    """


class Span(NamedTuple):
    """A stretch of time."""

    start: float
    end: float


def count_overlaps(beliefs: Iterable[Belief], but: Sequence[Span] = ()) -> int:
    """Return how many began, outside `but`, while as many earlier ones lasted as may, or more.

    As many as the strictest of them allows.
    """
    overlaps, lasting = 0, list[Belief]()
    for belief in sorted(belief for belief in beliefs if belief.until > belief.start):
        lasting = [earlier for earlier in lasting if earlier.until > belief.start]
        room = min(each.most for each in (belief, *lasting))
        overlaps += len(lasting) >= room and not _is_in(belief.start, but)
        lasting.append(belief)
    return overlaps


def count_falling(beliefs: Iterable[Belief], but: Sequence[Span] = ()) -> int:
    """Return how many, begun outside `but`, have no higher token than one that ended before.

    One that had ended before it began, by its own clock, believed nothing. Of two that may believe
    at the same time the first may be heard of when the second is over.
    """
    everything = [belief for belief in beliefs if belief.until > belief.start]
    ended = sorted(everything, key=lambda belief: belief.until)
    falling, highest, highest_alone, position = 0, 0, 0, 0
    for belief in sorted(everything):
        while position < len(ended) and ended[position].until <= belief.start:
            before = ended[position]
            highest = max(highest, before.fence)
            highest_alone = max(highest_alone, before.fence if before.most == 1 else 0)
            position += 1
        bound = highest if belief.most == 1 else highest_alone
        falling += belief.fence <= bound and not _is_in(belief.start, but)
    return falling


def _is_in(moment: float, spans: Sequence[Span]) -> bool:
    return any(span.start < moment <= span.end for span in spans)
