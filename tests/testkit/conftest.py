from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.faults.processes import Crew


@pytest.fixture
def other_process(
    redis_server: EmbeddedServer, client: redis.Redis
) -> Iterator[Callable[[str], None]]:
    """Lets another process hold a lock until the test ends."""
    crew = Crew(redis_server.url, client)

    def hold(name: str) -> None:
        (worker,) = crew.hire(1)
        assert worker.ask("acquire", name=name)["granted"]

    yield hold
    crew.close()
