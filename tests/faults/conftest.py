from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.faults.processes import Crew
from tests.support.fixtures import tasks, world
from tests.support.world import Observer


@pytest.fixture
def server_side(client: redis.Redis, name: str) -> Iterator[Observer]:
    """The server's side of the test's lock, of which nothing is left in the end."""
    made = Observer(client)
    yield made
    assert set() == made.left_of(name)


@pytest.fixture
def crew(redis_server: EmbeddedServer, client: redis.Redis) -> Iterator[Crew]:
    made = Crew(redis_server.url, client)
    yield made
    made.close()
