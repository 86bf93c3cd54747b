"""Lines that last as long as a test wants, and of which nothing stays behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import override_settings

from tests.support import handover, timings
from tests.support.world import PATIENCE


@pytest.fixture(autouse=True)
def in_batches() -> Iterator[None]:
    # Of a long lease, the tenth in which a hold passes on is longer than a busy machine takes.
    changed = {"LOCAL_BATCH": 16, "LEASE": 60}
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, **changed}):
        yield


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough to pass a hold on, however busy the machine is, before it is written down."""
    timings.lines_last(monkeypatch, PATIENCE)
    timings.leases_are_young_for(monkeypatch, PATIENCE)
    timings.holders_listen_after(monkeypatch, PATIENCE)


@pytest.fixture(autouse=True)
def no_lines_left() -> Iterator[None]:
    handover.forget_lines()
    yield
    assert not handover.has_lines()
