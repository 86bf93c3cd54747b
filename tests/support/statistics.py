"""What a process counts, and when it sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks.statistics import collector as collecting
from redis_locks.statistics import storage
from redis_locks.statistics.collector import BATCH, Collector, collector
from redis_locks.statistics.usual import Recent, Usual

__all__ = ["BATCH", "Collector", "collector"]


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


def long_holds_are_usual(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Holds and waits usually last so many seconds."""
    monkeypatch.setattr(Recent, "usual", lambda *_: Usual(seconds, seconds))
