"""What a process counts, and when it sends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any

import pytest

from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import LinkBroken, run_blocking
from redis_locks.statistics import collector as collecting
from redis_locks.statistics import storage, unsent
from redis_locks.statistics.collector import BATCH, HOLDS, Collector, collector
from redis_locks.statistics.note import Note
from redis_locks.statistics.unsent import MOST_FIGURES, MOST_NOTES, Unsent
from redis_locks.statistics.usual import Recent, Usual
from redis_locks.values.histogram import bucket_of


def flush() -> None:
    """Send what this process has counted."""
    collector.flush()


def send_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """What is counted is sent after so many seconds."""
    monkeypatch.setattr(collecting, "INTERVAL", seconds)


def before_sending(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something whenever figures are about to be sent."""
    really = storage.add

    async def slow(*args: Any) -> None:
        do()
        await really(*args)

    monkeypatch.setattr(storage, "add", slow)


def after_sending(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Figures are sent, but the sender gets an error."""
    really = storage.add

    async def failing(*args: Any) -> None:
        await really(*args)
        raise error

    monkeypatch.setattr(storage, "add", failing)


def send_late(figure: str, *, seconds: float) -> None:
    """Send a figure of something that happened so many seconds ago."""
    late = Unsent()
    late.batches = [unsent.Batch(monotonic() - seconds, {figure: 1}, [])]
    run_blocking(late.send(backend_for(None)))


def send(
    figures: Mapping[str, int], notes: Iterable[Any] = (), deadlocks: Iterable[Any] = ()
) -> None:
    """Send these to the default server."""
    sent = Unsent()
    sent.add(figures, notes, deadlocks)
    run_blocking(sent.send(backend_for(None)))


def it_is(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """What is kept for later is of this moment, on ``time.monotonic()``."""
    monkeypatch.setattr(unsent, "monotonic", lambda: seconds)


def long_holds_are_usual(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Holds and waits usually last so many seconds."""
    monkeypatch.setattr(Recent, "usual", lambda *_: Usual(seconds, seconds))


def note_past_holds(name: str, *holds: tuple[float, float, str]) -> None:
    """Send what a process tells of ended holds: how long ago, how long each was, the outcome."""
    now = monotonic()
    notes = [
        (name, "ended", Note(now - ago, outcome, f"worker {place}", length, 100 + place))
        for place, (ago, length, outcome) in enumerate(holds)
    ]
    figures = Counter(f"{HOLDS[bucket_of(length)]} {name}" for _, length, _ in holds)
    send(figures, notes)
