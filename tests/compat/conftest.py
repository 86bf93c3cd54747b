from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import redis

from redis_locks.testing.server import EmbeddedServer
from tests.compat.worlds import OURS, THEIRS, Handle, World
from tests.support.world import until


@pytest.fixture
def make_world(redis_server: EmbeddedServer) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(kind: type[World], url: str = redis_server.url) -> World:
        made.append(kind(url))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture(params=[*THEIRS, *OURS], ids=lambda kind: kind.__name__)
def world(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    """redis-py's locks and ours, blocking and asyncio: what holds here is the same for all."""
    return make_world(request.param)


@pytest.fixture(params=OURS, ids=lambda kind: kind.__name__)
def ours(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    return make_world(request.param)


@pytest.fixture(params=THEIRS, ids=lambda kind: kind.__name__)
def theirs(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    return make_world(request.param)


class Observer:
    """Reads the server's side of one key."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client = client
        self.name = name

    def waiters(self) -> int:
        return self.client.zcard(f"{self.name}:redis_locks:line")

    def until_waiters(self, count: int) -> None:
        until(lambda: self.waiters() == count)

    def until_heard(self, count: int) -> None:
        """Wait until so many waiters have said on which channel they listen."""
        claims = f"{self.name}:redis_locks:claims"
        until(
            lambda: (
                count == sum(not c.startswith(b"- ") for c in self.client.hgetall(claims).values())
            )
        )

    def in_line(self, lock: Handle, *, place: int = 1, **options: Any) -> Future[Any]:
        """Have a lock acquired; return once so many wait, and say where they listen."""
        asked = lock.start("acquire", **options)
        self.until_heard(place)
        return asked

    def keys(self) -> set[bytes]:
        return set(self.client.keys(f"{self.name}*"))

    def calls(self) -> int:
        """How many scripts and lock commands clients have sent."""
        stats = self.client.info("commandstats")
        sent = ("evalsha", "eval", "set")
        return sum(stats.get(f"cmdstat_{word}", {}).get("calls", 0) for word in sent)


@pytest.fixture
def server_side(client: redis.Redis, name: str) -> Observer:
    return Observer(client, name)
