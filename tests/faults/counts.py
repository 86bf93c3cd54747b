"""What happened in one run, counted from what the workers wrote down."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.beliefs import Belief, Span, count_falling, count_overlaps


@dataclass
class Counts:
    """Everything but `cycles`, `recovery`, `fenced_off`, `lost`, `errors` and `said` must be 0."""

    cycles: int = 0
    overlaps: int = 0
    """Holders that believed while another one did."""
    lost_updates: int = 0
    """Deposits accepted from a holder who had read before another one wrote."""
    torn: int = 0
    """Balances that changed while somebody had reason to believe that it shares the lock."""
    drift: int = 0
    repeated: int = 0
    falling: int = 0
    starved: int = 0
    """Waits of `LONG_WAIT` seconds in vain."""
    stuck: int = 0
    """Workers that did not hold again in time when the fault was over."""
    recovery: float = 0.0
    """Seconds until all of them did."""
    orphaned: int = 0
    """Keys, or the lock itself, left behind when everybody was gone."""
    unexpected: int = 0
    """Errors of a kind that the scenario does not allow."""
    said: list[str] = field(default_factory=list)
    """What the first few of them said, for whoever looks for their cause."""
    fenced_off: int = 0
    lost: int = 0
    """Holders that were told that they had lost the lock."""
    errors: Counter[str] = field(default_factory=Counter)

    def failures(self) -> dict[str, int]:
        """Return what should be 0 and is not."""
        must_be_zero = (
            "overlaps", "lost_updates", "torn", "drift", "repeated", "falling", "starved", "stuck",
            "orphaned", "unexpected",
        )  # fmt: skip
        return {name: found for name in must_be_zero if (found := getattr(self, name))}


_MOST_SAID = 5

LONG_WAIT = 20.0
"""Seconds that most workers wait for, mostly."""


class Diary:
    """What one worker wrote down so far and nobody has counted yet.

    Args:
        path: Where it writes.
        most: Of how many that believe at the same time it may be one.
    """

    def __init__(self, path: Path, most: float = 1) -> None:
        self._path = path
        self._most = most
        self._events: list[list[Any]] = []
        self._read = 0
        self._last_in = -math.inf
        self._taken_until = -math.inf
        self.killed_at: float | None = None

    def events(self) -> list[list[Any]]:
        """Return these events; a line that a killed worker left half written is none."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                *lines, rest = file.read().split(b"\n")
                self._read = file.tell() - len(rest)
            for line in lines:
                event = json.loads(line)
                self._events.append(event)
                if event[0] == "in":
                    self._last_in = event[1]
        return self._events

    def is_inside(self) -> bool:
        """Return whether the last thing written is that the lock was acquired."""
        events = self.events()
        return bool(events) and events[-1][0] == "in"

    def held_since(self, moment: float) -> bool:
        """Return whether it acquired after `moment`."""
        self.events()
        return self._last_in > moment

    def take(self) -> list[list[Any]]:
        """Return the events and forget them, but for a hold that goes on."""
        events = self.events()
        end = len(events)
        if self.killed_at is None and self._is_open():
            end = max(place for place, event in enumerate(events) if event[0] == "in")
        taken, self._events = events[:end], events[end:]
        if taken:
            self._taken_until = taken[-1][1]
        return taken

    def _is_open(self) -> bool:
        for event in reversed(self._events):
            if event[0] in {"in", "leave"}:
                return bool(event[0] == "in")
        return False

    @property
    def complete_until(self) -> float:
        """Until when all beliefs are among what was taken."""
        if self.killed_at is not None:
            return math.inf
        return self._last_in if self._events else self._taken_until

    def beliefs(self, events: Iterable[list[Any]], longest: float) -> Iterator[Belief]:
        """Return the beliefs in them; a killed holder's lasted until then, or `longest` seconds."""
        entered: list[Any] | None = None
        for event in events:
            if event[0] == "in":
                entered = event
            elif event[0] == "leave" and entered is not None:
                yield Belief(entered[1], event[2], entered[2], self._most)
                entered = None
        if entered is not None and self.killed_at is not None:
            until = min(self.killed_at, entered[1] + longest)
            yield Belief(entered[1], until, entered[2], self._most)


class Tally:
    """Counts what the workers at one lock wrote down, and forgets what it has counted.

    Args:
        counts: Where to add it up.
        longest: Seconds that a killed holder may have believed in its hold.
        allowed: The kinds of errors that may reach a caller.
        promised: Whether no two may believe at the same time.
        numbered: Whether holds have fencing tokens.
        forgotten: When the server knew nothing of leases that it had given. Who begins to believe
            then may find another one who does, and that one may be heard of first. It may grow.
    """

    _CARRIED = 100
    """How many of the latest beliefs later ones are compared with."""

    def __init__(
        self,
        counts: Counts,
        *,
        longest: float,
        allowed: frozenset[str],
        promised: bool,
        numbered: bool,
        forgotten: Sequence[Span] = (),
    ) -> None:
        self._counts = counts
        self._longest = longest
        self._allowed = allowed
        self._promised = promised
        self._numbered = numbered
        self._forgotten = forgotten
        self._fences: set[int] = set()
        self._pending: list[Belief] = []
        self._earlier: list[Belief] = []

    def read(self, diaries: Sequence[Diary], *, final: bool = False) -> None:
        """Count what is new; `final` if nothing more will come."""
        for diary in diaries:
            events = diary.take()
            self._count(events)
            self._pending += diary.beliefs(events, self._longest)
        complete = math.inf if final else min(diary.complete_until for diary in diaries)
        ready = [belief for belief in self._pending if belief.start < complete]
        self._pending = [belief for belief in self._pending if belief.start >= complete]
        self._compare(ready)

    def _count(self, events: list[list[Any]]) -> None:
        counts = self._counts
        for kind, _, *details in events:
            if kind == "in" and self._numbered:
                counts.repeated += details[0] in self._fences
                self._fences.add(details[0])
            counts.cycles += kind == "leave"
            counts.torn += kind == "torn"
            counts.lost += kind == "out" and details[0] == "lost"
            counts.starved += kind == "no" and details[0] >= LONG_WAIT
            if kind == "error":
                counts.errors[details[0]] += 1
                if details[0] not in self._allowed:
                    counts.unexpected += 1
                    counts.said += [": ".join(details)] if len(counts.said) < _MOST_SAID else []

    def _compare(self, ready: list[Belief]) -> None:
        earlier = self._earlier
        beliefs = sorted(earlier + ready)
        but = [span for span in self._forgotten if beliefs and span.end >= beliefs[0].start]
        if self._promised:
            self._counts.overlaps += count_overlaps(beliefs, but) - count_overlaps(earlier, but)
        if self._numbered:
            self._counts.falling += count_falling(beliefs, but) - count_falling(earlier, but)
        self._earlier = beliefs[-self._CARRIED :]
