from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.db import connections

from tests.ledger.models import Counter
from tests.support.fixtures import own_side
from tests.support.world import Observer, Tasks, Threads, World


class ReadingThreads(Threads):
    """Each thread closes the connections to the database that it opened."""

    def start(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        def run() -> Any:
            try:
                return work(*args, **kwargs)
            finally:
                connections.close_all()

        return super().start(run)


class ReadingTasks(Tasks):
    """Async code asks the database in a thread of its own."""

    def close(self) -> None:
        self.run(sync_to_async(connections.close_all)())
        super().close()


@pytest.fixture(params=[ReadingThreads, ReadingTasks], ids=["blocking", "async"])
def world(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[World]:
    made: Any = request.param()
    yield made
    made.close()


@pytest.fixture
def tasks(transactional_db: None) -> Iterator[Tasks]:
    made = ReadingTasks()
    yield made
    made.close()


@pytest.fixture
def in_loop(transactional_db: None) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in a loop of its own, and close the connections that it opened."""

    async def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await coroutine
        finally:
            await sync_to_async(connections.close_all)()

    return lambda coroutine: asyncio.run(run(coroutine))


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


@pytest.fixture
def counter(transactional_db: None, name: str) -> Callable[..., Counter]:
    """Make a row that no other test has locks of."""
    made: list[Counter] = []

    def make(**fields: Any) -> Counter:
        made.append(Counter.objects.create(name=f"{name}:{len(made)}", **fields))
        return made[-1]

    return make
