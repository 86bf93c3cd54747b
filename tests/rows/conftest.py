from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.db import connections

from tests.contract.world import Observer, Tasks, Threads, World
from tests.ledger.models import Counter


@pytest.fixture(params=[Threads, Tasks], ids=["blocking", "async"])
def world(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[World]:
    made: Any = request.param()
    yield made
    if isinstance(made, Tasks):
        # Async code asks the database in a thread of its own.
        made.run(sync_to_async(connections.close_all)())
    made.close()


@pytest.fixture
def tasks(transactional_db: None) -> Iterator[Tasks]:
    made = Tasks()
    yield made
    made.run(sync_to_async(connections.close_all)())
    made.close()


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
