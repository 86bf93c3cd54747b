from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.optimistic.sides import AsyncSide, BlockingSide, Side
from tests.support.world import Observer


@pytest.fixture(params=[BlockingSide, AsyncSide], ids=["run", "arun"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    made: Side = request.param()
    yield made
    made.world.close()


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


@pytest.fixture
def proxy(redis_server: EmbeddedServer) -> Iterator[Proxy]:
    """A way to the server that loses the replies of EXEC."""
    with Proxy(redis_server.url, counted=(b"EXEC\r\n",)) as made:
        yield made


@pytest.fixture
def operations(client: redis.Redis, name: str) -> Callable[[], list[bytes]]:
    """Reads the keys that remember operations on the key `name`."""
    return lambda: client.keys(f"redis_locks:operation:{{{name}}}:*")
