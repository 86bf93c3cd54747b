from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.faults.processes import Crew
from tests.faults.proxy import Proxy
from tests.support.fixtures import server_side, tasks, world

__all__ = ["crew", "proxy", "server_side", "tasks", "world"]


@pytest.fixture
def crew(redis_server: EmbeddedServer, client: redis.Redis) -> Iterator[Crew]:
    made = Crew(redis_server.url, client)
    yield made
    made.close()


@pytest.fixture
def proxy(redis_server: EmbeddedServer) -> Iterator[Proxy]:
    with Proxy(redis_server.url) as made:
        yield made
