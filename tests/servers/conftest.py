from __future__ import annotations

from collections.abc import Iterator

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.optimistic.conftest import side
from tests.run_once.conftest import workers
from tests.support.fixtures import tasks, world


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    """A server of these tests alone, whose users and settings they may change."""
    with EmbeddedServer(use_environment=False) as server:
        yield server
