from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from redis_locks import store
from tests.contract.turns import turns
from tests.contract.ways import one_way, own_server
from tests.contract.world import Observer, Tasks, Threads, World

__all__ = ["one_way", "own_server", "turns"]


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


@pytest.fixture
def interrupted_downgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the next downgrade interrupted when the server has done it, and nobody knows."""
    downgrade = store.downgrade

    async def interrupted(*args: Any) -> bool:
        monkeypatch.undo()
        await downgrade(*args)
        raise InterruptedError

    monkeypatch.setattr(store, "downgrade", interrupted)
