"""How the product tells signals, logs and statistics what happened to a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks.conf.validation import TELEMETRY
from redis_locks.events import log_lines
from redis_locks.events.dispatch import Teller
from redis_locks.protocol import lock_events

__all__ = ["TELEMETRY", "Teller"]


def record_events_made(monkeypatch: pytest.MonkeyPatch, made: Callable[..., Any]) -> None:
    """Have `made` build each event."""
    monkeypatch.setattr(lock_events, "LockEvent", made)


def nobody_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No integration is told of locks."""
    monkeypatch.setattr(lock_events, "observer", lock_events.Nobody())


def nobody_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statistics are kept."""
    monkeypatch.setattr(Teller, "count", lambda *_: False)


def sum_up_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have one line of the log stand for all waits of a lock within so many seconds."""
    monkeypatch.setattr(log_lines.convoys, "interval", seconds)


def write_summaries() -> None:
    """Write what is counted for the log, as the end of the process does."""
    log_lines.convoys.flush()
