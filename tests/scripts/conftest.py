from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.scripts.bench import Bench


@pytest.fixture
def bench(client: redis.Redis, name: str) -> Iterator[Bench]:
    """One lock, worked on by hand; afterwards every key it has must have an expiry."""
    made = Bench(client, name)
    yield made
    made.close()
    assert [] == made.keys_without_expiry()
