from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.faults.processes import Crew
from tests.support.fixtures import server_side, tasks, world


@pytest.fixture
def crew(redis_server: EmbeddedServer, client: redis.Redis) -> Iterator[Crew]:
    made = Crew(redis_server.url, client)
    yield made
    made.close()
