"""A real server for each test process, a client of it, and a name that no other test uses."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
import redis
from django.conf import settings

from redis_locks.testing.server import EmbeddedServer


@pytest.fixture(scope="session", autouse=True)
def redis_server() -> Iterator[EmbeddedServer]:
    """The server of this test process; every worker of a parallel run has its own."""
    with EmbeddedServer() as server:
        # In place, before the first use: CACHES keeps its identity, so Django's cache handler sees it as well.
        settings.CACHES["default"]["LOCATION"] = server.url
        settings.REDIS_URL = server.url
        os.environ["REDIS_LOCKS_TEST_URL"] = server.url
        yield server
        os.environ.pop("REDIS_LOCKS_TEST_URL", None)


@pytest.fixture
def private_server() -> Iterator[EmbeddedServer]:
    """A server of this test alone, to be killed and restarted at will."""
    with EmbeddedServer(use_environment=False) as server:
        yield server


@pytest.fixture
def client(redis_server: EmbeddedServer) -> Iterator[redis.Redis]:
    """A plain redis-py client of the test process's server."""
    with redis_server.client() as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A lock name that no other test uses."""
    return f"test:{uuid.uuid4().hex}"
