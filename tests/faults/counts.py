"""What happened in one run, counted from what the workers wrote down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Belief(NamedTuple):
    """From when until when one holder had reason to believe that it holds."""

    start: float
    until: float
    fence: int


@dataclass
class Counts:
    """Everything but `cycles`, `fenced_off`, `lost` and `errors` must be 0."""

    cycles: int = 0
    overlaps: int = 0
    """Holders that believed while another one did."""
    lost_updates: int = 0
    """Deposits accepted from a holder who had read before another one wrote."""
    drift: int = 0
    repeated: int = 0
    falling: int = 0
    stuck: int = 0
    """Workers that did not hold again in time when the fault was over."""
    orphaned: int = 0
    """Keys, or the lock itself, left behind when everybody was gone."""
    unexpected: int = 0
    """Errors of a kind that the scenario does not allow."""
    fenced_off: int = 0
    lost: int = 0
    """Holders that were told that they had lost the lock."""
    errors: Counter[str] = field(default_factory=Counter)

    def failures(self) -> dict[str, int]:
        """Return what should be 0 and is not."""
        must_be_zero = (
            "overlaps", "lost_updates", "drift", "repeated", "falling", "stuck", "orphaned", "unexpected",
        )  # fmt: skip
        return {name: found for name in must_be_zero if (found := getattr(self, name))}


class Diary:
    """What one worker wrote down so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events: list[list[Any]] = []
        self._read = 0
        self.killed_at: float | None = None

    def events(self) -> list[list[Any]]:
        """Return all events; a line that a killed worker left half written is none."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                *lines, rest = file.read().split(b"\n")
                self._read = file.tell() - len(rest)
            self._events += [json.loads(line) for line in lines]
        return self._events

    def is_inside(self) -> bool:
        """Return whether the last thing written is that the lock was acquired."""
        events = self.events()
        return bool(events) and events[-1][0] == "in"

    def held_since(self, moment: float) -> bool:
        """Return whether it acquired after `moment`."""
        for event in reversed(self.events()):
            if event[1] <= moment:
                return False
            if event[0] == "in":
                return True
        return False

    def beliefs(self, longest: float) -> Iterable[Belief]:
        """Return the beliefs; a killed holder's lasted until it was killed or for `longest` seconds."""
        entered: list[Any] | None = None
        for event in self.events():
            if event[0] == "in":
                entered = event
            elif event[0] == "leave" and entered is not None:
                yield Belief(entered[1], event[2], entered[2])
                entered = None
        if entered is not None and self.killed_at is not None:
            yield Belief(entered[1], min(self.killed_at, entered[1] + longest), entered[2])


def count_overlaps(beliefs: Iterable[Belief]) -> int:
    """Return how many began while an earlier one lasted."""
    overlaps, latest = 0, float("-inf")
    for belief in sorted(belief for belief in beliefs if belief.until > belief.start):
        overlaps += belief.start < latest
        latest = max(latest, belief.until)
    return overlaps


def count_falling(beliefs: Iterable[Belief]) -> int:
    """Return how many have no higher token than one that had ended before they began.

    One that had ended before it began, by its own clock, believed nothing.
    """
    everything = [belief for belief in beliefs if belief.until > belief.start]
    ended = sorted(everything, key=lambda belief: belief.until)
    falling, highest, position = 0, 0, 0
    for belief in sorted(everything):
        while position < len(ended) and ended[position].until <= belief.start:
            highest = max(highest, ended[position].fence)
            position += 1
        falling += belief.fence <= highest
    return falling
