"""Fixtures and a marker for pytest; ``pytest_plugins = ["redis_locks.testing.pytest_plugin"]`` in conftest.py."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test.utils import override_settings

from redis_locks.conf.settings import DEFAULT_SERVER
from redis_locks.testing.overrides import override_locks
from redis_locks.testing.server import EmbeddedServer


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "override_locks(outcome): what becomes of every lock in the test, without a server; see redis_locks.testing",
    )


@pytest.fixture(autouse=True)
def _override_locks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Do as the marker says: ``@pytest.mark.override_locks("busy")``. The one nearest to the test counts."""
    marker = request.node.get_closest_marker("override_locks")
    if marker is None:
        yield
        return
    with override_locks(*marker.args, **marker.kwargs):
        yield


@pytest.fixture(scope="session")
def redis_locks_server() -> Iterator[EmbeddedServer]:
    """A server of this test process alone; every worker of a parallel run has its own.

    It starts with the first test that asks for it and ends with the run, however that ends.
    With ``REDIS_URL`` in the environment it is that server instead.
    """
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def redis_locks(redis_locks_server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """The same server, with the locks of this test on it, out of reach of other tests' locks.

    Each of SERVERS has a database of its own there; if the server is that of REDIS_URL, they share one. Locks that
    name a cache or a URL by ``using`` still go there.
    """
    configured = getattr(settings, "REDIS_LOCKS", {})
    url, is_ours = redis_locks_server.url, redis_locks_server.pid is not None
    # A prefix for each test, rather than FLUSHALL: the server may be one from REDIS_URL.
    of_this_test: dict[str, object] = {"PREFIX": f"test-{uuid.uuid4().hex}"}
    names = configured.get("SERVERS", ())
    if names:
        numbered = enumerate(names, 1)
        of_this_test["SERVERS"] = {n: f"{url}?db={db}" if is_ours else url for db, n in numbered}
    if DEFAULT_SERVER not in names:
        of_this_test["CONNECTION"] = url
    with override_settings(REDIS_LOCKS={**configured, **of_this_test}):
        yield redis_locks_server
