from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.contract.world import Observer, Tasks, Threads, World
from tests.faults.processes import Crew
from tests.faults.proxy import Proxy


@pytest.fixture
def crew(redis_server: EmbeddedServer, client: redis.Redis) -> Iterator[Crew]:
    made = Crew(redis_server.url, client)
    yield made
    made.close()


@pytest.fixture(params=[Threads, Tasks], ids=["blocking", "async"])
def world(request: pytest.FixtureRequest, redis_server: object) -> Iterator[World]:
    made: World = request.param()
    yield made
    made.close()


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


@pytest.fixture
def proxy(redis_server: EmbeddedServer) -> Iterator[Proxy]:
    with Proxy(redis_server.url) as made:
        yield made
