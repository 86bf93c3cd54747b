"""Fixtures that several folders share; each folder's conftest imports the ones it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.test import override_settings

from redis_locks import Hold, Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support.calls import lose_the_reply
from tests.support.statistics import flush
from tests.support.world import Observer, Tasks, Threads, World, held


@pytest.fixture(params=[Threads, Tasks], ids=["blocking", "async"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The test runs twice: with threads, then with tasks of an event loop."""
    made: World = request.param()
    yield made
    made.close()


@pytest.fixture
def hold(world: World, name: str) -> Hold:
    """A party of this world holds the lock."""
    return held(world, Lock(name))


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    made = Tasks()
    yield made
    made.close()


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


@pytest.fixture
def own_side(private_server: EmbeddedServer, settings: Any) -> Iterator[Observer]:
    """Observes a server of this test alone: it counts no command of other tests' threads.

    Locks go to that server.
    """
    settings.REDIS_LOCKS = {**settings.REDIS_LOCKS, "CONNECTION": private_server.url}
    with private_server.client() as client:
        yield Observer(client)


@pytest.fixture
def listening(name: str, client: redis.Redis, settings: Any) -> Callable[[], bool]:
    """Whether this process listens for the end of its holds; the prefix hides other tests."""
    settings.REDIS_LOCKS = {"PREFIX": name}
    return lambda: bool(client.pubsub_channels(f"{name}:holders:*"))


@pytest.fixture
def interrupted_downgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt ends the next downgrade after the server did it, before the caller knows."""
    lose_the_reply(monkeypatch, "downgrade", InterruptedError())


@pytest.fixture(scope="session")
def own_server() -> Iterator[EmbeddedServer]:
    """A server where tests count commands and kill connections."""
    with EmbeddedServer(use_environment=False) as server:
        yield server


@pytest.fixture
def own_prefix(name: str) -> Iterator[None]:
    """No lock, holder or waiter of another test is listed, and none of their figures is sent."""
    flush()
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        yield
