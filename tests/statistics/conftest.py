from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from tests.support.statistics import flush


@pytest.fixture
def counted(name: str) -> Iterator[None]:
    """Statistics are on, those of this test apart, and sent when the test asks for it."""
    flush()
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        yield
        flush()
