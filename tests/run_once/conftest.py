from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.run_once.world import AsyncWorkers, BlockingWorkers, Records, Workers


@pytest.fixture(params=[BlockingWorkers, AsyncWorkers], ids=["blocking", "async"])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    made: Workers = request.param()
    yield made
    made.close()


@pytest.fixture
def tasks() -> Iterator[AsyncWorkers]:
    made = AsyncWorkers()
    yield made
    made.close()


@pytest.fixture
def records(client: redis.Redis) -> Records:
    """The server's side."""
    return Records(client)
