"""Fixtures and a marker for pytest.

``pytest_plugins = ["redis_locks.testing.pytest_plugin"]`` in conftest.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from _pytest.unittest import TestCaseFunction
from django.conf import settings
from django.test.utils import override_settings

from redis_locks.conf.settings import DEFAULT_SERVER
from redis_locks.testing.overrides import override_locks
from redis_locks.testing.server import EmbeddedServer


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make the setting for a whole suite known."""
    parser.addini(
        "override_locks",
        "what becomes of every lock where no fixture, marker or decorator says otherwise; see "
        "redis_locks.testing",
        default=None,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "override_locks(outcome): what becomes of every lock in the test, without a server; see "
        "redis_locks.testing",
    )


@pytest.fixture(scope="session", autouse=True)
def _override_locks_of_suite(request: pytest.FixtureRequest) -> Iterator[None]:
    """Do as the setting ``override_locks`` says, for all tests that say nothing else."""
    outcome: Any = request.config.getini("override_locks")
    with override_locks(outcome) if outcome else nullcontext():
        yield


@pytest.fixture(autouse=True)
def _override_locks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Do as the marker says, for the test's fixtures: ``@pytest.mark.override_locks("busy")``."""
    with _marked(request.node) or nullcontext():
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Do as the marker says, once more: it is nearer to the test than any fixture."""
    marked = _marked(item)
    if marked is not None and isinstance(item, TestCaseFunction):
        item.obj = marked(item.obj)  # nearer than a decorator of its class
        marked = None
    with marked or nullcontext():
        yield


def _marked(item: pytest.Item) -> override_locks | None:
    """Return what the marker nearest to a test says."""
    marker = item.get_closest_marker("override_locks")
    return None if marker is None else override_locks(*marker.args, **marker.kwargs)


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

    Each of SERVERS has a database of its own there; if the server is that of REDIS_URL, they share
    one. Locks that name a cache or a URL by ``using`` still go there.
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
    with override_settings(REDIS_LOCKS={**configured, **of_this_test}), override_locks("server"):
        yield redis_locks_server
