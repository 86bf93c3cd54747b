from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fixtures import own_prefix
from tests.support.statistics import flush


@pytest.fixture
def counted(own_prefix: None) -> Iterator[None]:
    """Statistics are on, those of this test apart, and sent when the test asks for it."""
    yield
    flush()
