"""The metrics that REDIS_LOCKS["TELEMETRY"] starts, and how many labels they have."""

from __future__ import annotations

from typing import Any

import pytest

from redis_locks.integrations import telemetry
from redis_locks.integrations.telemetry import BUCKETS, CLASSES, OTHER, start


def open_telemetry(tracers: Any, meters: Any) -> Any:
    """What TELEMETRY names, with providers of a test's own."""
    from redis_locks.integrations.opentelemetry import OpenTelemetry

    return OpenTelemetry(tracers, meters)


def started() -> set[str]:
    """What was started."""
    return set(telemetry._started)


def tell_apart(monkeypatch: pytest.MonkeyPatch, locks: int) -> None:
    """So many locks have a label of their own."""
    monkeypatch.setattr(telemetry, "MAX_LOCKS", locks)


def keep_open(monkeypatch: pytest.MonkeyPatch, holds: int) -> None:
    """So many holds without an end are remembered."""
    monkeypatch.setattr(telemetry, "MAX_OPEN", holds)
