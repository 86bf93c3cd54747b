from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.run_once.world import AsyncWorkers, BlockingWorkers, Records, Workers


@pytest.fixture(params=[BlockingWorkers, AsyncWorkers], ids=["blocking", "async"])
def workers(request: pytest.FixtureRequest, redis_server: object) -> Iterator[Workers]:
    made: Workers = request.param()
    yield made
    made.close()


@pytest.fixture
def records(client: redis.Redis) -> Iterator[Records]:
    """The server's side; whatever a test does, no key may be left without an expiry."""
    made = Records(client)
    yield made
    assert [] == made.without_expiry()
