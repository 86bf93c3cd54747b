from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.contract.world import Observer, Tasks, Threads, World


@pytest.fixture(params=[Threads, Tasks], ids=["blocking", "async"])
def world(request: pytest.FixtureRequest, redis_server: object) -> Iterator[World]:
    made: World = request.param()
    yield made
    made.close()


@pytest.fixture
def tasks(redis_server: object) -> Iterator[Tasks]:
    made = Tasks()
    yield made
    made.close()


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


@pytest.fixture
def listening(name: str, client: redis.Redis, settings: Any) -> Callable[[], bool]:
    """Whether this process listens for the end of its holds; those of other tests are elsewhere."""
    settings.REDIS_LOCKS = {"PREFIX": name}
    return lambda: bool(client.pubsub_channels(f"{name}:holders:*"))
