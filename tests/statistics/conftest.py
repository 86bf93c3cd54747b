from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from redis_locks.statistics.collector import collector


@pytest.fixture
def counted(name: str) -> Iterator[None]:
    """Statistics are on, those of this test apart, and sent when the test asks for it."""
    collector.flush()
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        yield
        collector.flush()
