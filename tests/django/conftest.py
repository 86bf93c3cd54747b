from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import connections

from redis_locks import Hold, Lock, LockLost
from tests.browsing import browser
from tests.django.admin_browsing import hire, page, server, site, visit
from tests.django.admin_pages import operator, viewer
from tests.statistics.conftest import counted
from tests.support.fixtures import own_prefix, server_side
from tests.support.transactions import keeps_anything
from tests.support.world import granted


@pytest.fixture
def nothing_stays_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """Afterwards the connection to the test's database keeps no hold."""
    (alias,) = {"database", "postgres"} & set(request.fixturenames) or {None}
    database = request.getfixturevalue(alias) if alias else "default"
    yield
    assert not keeps_anything(database)


@pytest.fixture
def hold(name: str) -> Iterator[Hold]:
    """A hold of ours, the nightly report's, which a test may end."""
    found = granted(Lock(name, lease=60, renew=False, label="nightly report").acquire(wait=0))
    yield found
    with suppress(LockLost):
        found.release()


@pytest.fixture
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is a transaction."""
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
