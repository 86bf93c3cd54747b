"""How optimistic transactions find their server, pause, recover and count conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from redis_locks.optimistic import conflicts, retries
from redis_locks.optimistic.clients import Cluster, source_of


def record_refreshes(monkeypatch: pytest.MonkeyPatch) -> list[Cluster]:
    """Return a list that gets longer whenever a cluster's slots are looked up again."""
    refreshed: list[Cluster] = []
    refresh = Cluster.refresh
    monkeypatch.setattr(
        Cluster, "refresh", lambda source: (refreshed.append(source), refresh(source))
    )
    return refreshed


def keep_conflicts_of(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    """Conflicts of so many keys are kept."""
    monkeypatch.setattr(conflicts, "KEPT_KEYS", keys)


def outcomes_are_late(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The next outcome is looked for so many seconds after its request was sent."""
    now = retries.monotonic()
    begun_and_sent = iter([now, now])
    monkeypatch.setattr(retries, "monotonic", lambda: next(begun_and_sent, now + seconds))


def pause_by(
    monkeypatch: pytest.MonkeyPatch, draw: Callable[[float, float], float], ticks: Iterator[float]
) -> None:
    """Draw each pause between two bounds by `draw`.

    The clock tells `ticks`: at the start of an attempt, at its EXEC, and at the pause.
    """
    monkeypatch.setattr(retries, "random", SimpleNamespace(uniform=draw))
    monkeypatch.setattr(retries, "monotonic", lambda: next(ticks))
