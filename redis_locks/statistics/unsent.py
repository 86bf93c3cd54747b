"""The figures and notes of one server that are yet to be sent.

They outlive an outage of the server, within bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final

from redis_locks.statistics import storage
from redis_locks.statistics.storage import Deadlock, OfLock

if TYPE_CHECKING:
    from redis_locks.connections.backends import Backend

MOST_FIGURES: Final = 500
"""How many figures of one span are kept, at least; further names are summed up."""

MOST_NOTES: Final = 2000
"""How many notes are kept. Of older spans, those of frequent kinds go first."""

MOST_DEADLOCKS: Final = 20
"""How many deadlocks of one span are kept, as the server keeps so many."""

_MINUTE, _QUARTER, _HOUR, _DAY = 60.0, 900.0, 3600.0, 86400.0

_numbers = count(1)


@dataclass(slots=True)
class Batch:
    """What happened in one span of time.

    Attributes:
        at: When, on ``time.monotonic()``.
        figures: What to add to each figure, "METRIC NAME".
        notes: What happened to locks.
        deadlocks: Those that were broken.
        number: Its number among all of this process, by which the server knows it again. 0: it was
            never sent, and may still grow.
    """

    at: float
    figures: dict[str, int]
    notes: list[OfLock]
    deadlocks: list[Deadlock] = field(default_factory=list)
    number: int = 0

    def add(self, later: Batch) -> None:
        """Add what happened later in the same span."""
        for figure, times in later.figures.items():
            known = figure in self.figures or len(self.figures) < MOST_FIGURES
            kept = figure if known else f"{figure.partition(' ')[0]} "
            self.figures[kept] = self.figures.get(kept, 0) + times
        self.notes += later.notes
        self.deadlocks = [*self.deadlocks, *later.deadlocks][-MOST_DEADLOCKS:]

    def span(self, now: float) -> tuple[float, int]:
        """Return the span that it belongs to.

        It is a minute, or a quarter of an hour once it is an hour old, as on the server.
        """
        length = _MINUTE if now - self.at < _HOUR else _QUARTER
        return length, int(self.at // length)


class Unsent:
    """Batches in their order, the oldest first. Used by one thread at a time."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def add(
        self,
        figures: Mapping[str, int],
        notes: Iterable[OfLock],
        deadlocks: Iterable[Deadlock] = (),
    ) -> None:
        """Add what has happened in the last seconds; forget what is a day old."""
        now = monotonic()
        kept: list[Batch] = []
        for batch in [*self.batches, Batch(now, dict(figures), [*notes], [*deadlocks])]:
            last = kept[-1] if kept else None
            if now - batch.at >= _DAY:
                continue
            if last and not (last.number or batch.number) and last.span(now) == batch.span(now):
                last.add(batch)
            else:
                kept.append(batch)
        self.batches = kept
        self._forget_notes("frequent")
        self._forget_notes("ended", "notable")

    def _forget_notes(self, *kinds: str) -> None:
        """Forget the oldest notes of some kinds, if there are too many notes."""
        surplus = sum(len(batch.notes) for batch in self.batches) - MOST_NOTES
        for batch in self.batches:
            if surplus <= 0:
                return
            before = len(batch.notes)
            batch.notes = [note for note in batch.notes if note[1] not in kinds]
            surplus -= before - len(batch.notes)

    async def send(self, backend: Backend) -> None:
        """Send all, the oldest first.

        What an error keeps from being sent is sent the next time, and counted once.

        Raises LinkBroken, and LockBackendError.
        """
        while self.batches:
            first = self.batches[0]
            first.number = first.number or next(_numbers)
            await storage.add(
                backend, first.number, first.at, first.figures, first.notes, first.deadlocks
            )
            del self.batches[0]
