"""What one process has counted and noted for one server, and has not sent yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from redis_locks.events.dispatch import FREQUENT
from redis_locks.protocol.lock_events import Kind
from redis_locks.statistics.histogram import LAST

MOST_NAMES_KEPT = 2000
"""How many names are counted one by one; what the others did is summed up."""

MOST_NAMES_SENT = 100
"""How many of them are sent as they are: those with most contention."""

BENCHMARK: Final = "redis_locks:benchmark"
"""The start of the names of locks that `locks benchmark` takes: of these nothing is sent."""

REST: Final = ""
"""The name under which the others are summed up; no lock has it."""

METRICS: Final[Mapping[Kind, str]] = {
    "acquired": "a",
    "contended": "c",
    "timed_out": "t",
    "lost": "l",
    "deadlock": "d",
}
WAITS: Final = tuple(f"w{bucket}" for bucket in range(LAST + 1))
HOLDS: Final = tuple(f"h{bucket}" for bucket in range(LAST + 1))

_ENDS = frozenset({"released", "lost"})
_FREQUENT_KEPT, _NOTABLE_KEPT = 5, 20


class Note(NamedTuple):
    """Something that happened to a lock, for its page. Times are on ``time.monotonic()``."""

    at: float
    kind: str
    who: object
    """Shown as text, which is made when it is sent."""
    seconds: float = 0.0
    """How long the wait or the hold was that ended with it."""
    fencing_token: int = 0
    detail: str = ""


class Tally:
    """Counts by name and metric, and the latest notes of each name. Not thread-safe."""

    __slots__ = ("_counts", "_notes")

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._notes: dict[str, tuple[deque[Note], deque[Note]]] = {}

    def count(self, kind: Kind, names: tuple[str, ...], bucket: int | None, times: int = 1) -> None:
        """Count what has happened to locks.

        `bucket` is that of how long the wait or the hold was that ended with it; None if there was none.
        """
        metric, spent = METRICS.get(kind), ""
        if kind in _ENDS:
            spent = HOLDS[bucket or 0]
        elif bucket is not None:
            spent = WAITS[bucket]
        for name in names:
            counts = self._counts.get(name)
            if counts is None:
                counts = self._begin(name)
            if metric:
                counts[metric] = counts.get(metric, 0) + times
            if spent:
                counts[spent] = counts.get(spent, 0) + times

    def note(self, name: str, note: Note) -> bool:
        """Keep a note among the latest of its name, unless there are too many names.

        Return whether there are as many of the frequent kinds as are kept.
        """
        kept = self._notes.get(name)
        if kept is None:
            if len(self._notes) >= MOST_NAMES_KEPT:
                return False
            kept = self._notes[name] = deque(maxlen=_FREQUENT_KEPT), deque(maxlen=_NOTABLE_KEPT)
        kept[note.kind not in FREQUENT].append(note)
        return len(kept[0]) == _FREQUENT_KEPT

    def _begin(self, name: str) -> dict[str, int]:
        if len(self._counts) >= MOST_NAMES_KEPT:
            name = REST
        return self._counts.setdefault(name, {})

    def figures(self) -> dict[str, int]:
        """Return what to add to each figure, "METRIC NAME"; the less contended names summed up."""
        figures: dict[str, int] = {}
        for place, name in enumerate(self._ranked(self._counts)):
            sent = name if place < MOST_NAMES_SENT else REST
            for metric, count in self._counts[name].items():
                figure = f"{metric} {sent}"
                figures[figure] = figures.get(figure, 0) + count
        return figures

    def notes(self) -> Iterator[tuple[str, Note, bool]]:
        """Yield names and notes, each name's oldest first, and whether it is one of the frequent kinds."""
        for name in self._ranked(self._notes)[:MOST_NAMES_SENT]:
            for kept in self._notes[name]:
                for note in kept:
                    yield name, note, note.kind in FREQUENT

    def _ranked(self, names: Iterable[str]) -> list[str]:
        """Return the names of which anything is sent, the most contended first."""
        return sorted((name for name in names if not name.startswith(BENCHMARK)), key=self._rank)

    def _rank(self, name: str) -> tuple[int, int]:
        counts = self._counts.get(name, {})
        acquired = counts.get("a", 0)
        troubles = sum(counts.get(metric, 0) for metric in METRICS.values()) - acquired
        return -troubles, -acquired
