from __future__ import annotations

from collections.abc import Iterator

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
