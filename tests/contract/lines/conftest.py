"""Lines that last as long as a test wants, and of which nothing stays behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import override_settings

from redis_locks import leases, lines
from tests.contract.world import PATIENCE


@pytest.fixture(autouse=True)
def in_batches() -> Iterator[None]:
    with override_settings(REDIS_LOCKS={**settings.REDIS_LOCKS, "LOCAL_BATCH": 16}):
        yield


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough to pass a hold on, however busy the machine is."""
    for module in (lines, leases):
        monkeypatch.setattr(module, "YOUNG", PATIENCE)


@pytest.fixture(autouse=True)
def no_lines_left() -> Iterator[None]:
    lines._lines.clear()
    yield
    assert {} == lines._lines
