from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis
from django.db import connections
from django.test import override_settings

from redis_locks import Hold, Lock, LockLost
from tests.django.transactions import watched
from tests.support.world import Observer


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


@pytest.fixture
def own_prefix(name: str) -> Iterator[None]:
    """No lock, holder or waiter of another test is listed."""
    with override_settings(REDIS_LOCKS={"PREFIX": name}):
        yield


@pytest.fixture
def nothing_stays_installed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Afterwards the methods of the connection to the test's database are its class's own."""
    (alias,) = {"database", "postgres"} & set(request.fixturenames) or {None}
    database = request.getfixturevalue(alias) if alias else "default"
    yield
    assert [] == watched(database)


@pytest.fixture
def hold(name: str) -> Iterator[Hold]:
    """A hold of ours, the nightly report's, which a test may end."""
    found = Lock(name, lease=60, renew=False, label="nightly report").acquire(wait=0)
    assert found
    yield found
    with suppress(LockLost):
        found.release()


@pytest.fixture
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each request is a transaction; see `atomic_views`."""
    from tests.django.atomic_views import waiting

    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    yield
    waiting.clear()
