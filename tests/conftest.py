"""A real server for each test process, a client of it, and a name that no other test uses."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management.color import no_style
from django.core.signals import setting_changed
from django.db import connections
from django.test import TransactionTestCase

from redis_locks.statistics import collector
from redis_locks.testing.server import EmbeddedServer
from tests import postgres as postgresql
from tests.faults.proxy import Proxy
from tests.support.leftovers import Leftovers

# Started in the background or under nohup, these are ignored, and so they would be by the processes
# of the tests, which are to be interrupted.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# With this set, as in many images, each worker and each process of a test would compile every
# module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests that replace REDIS_LOCKS have statistics, and see to it by themselves that they are sent.
collector.INTERVAL = 3600.0

pytest_plugins = ["redis_locks.testing.pytest_plugin"]

MADE_BY_MIGRATE = {"auth_permission", "django_content_type", "django_migrations"}
"""Tables whose rows tests leave as they are."""


def _empty_tables(case: Any) -> None:
    """Delete what a test committed.

    Django's flush then makes all permissions anew, which takes longer than most tests.
    """
    for alias in case._databases_names(include_mirrors=False):
        connection = connections[alias]
        tables = set(connection.introspection.django_table_names(include_views=False))
        statements = connection.ops.sql_flush(no_style(), sorted(tables - MADE_BY_MIGRATE))
        connection.ops.execute_sql_flush(statements)


TransactionTestCase._fixture_teardown = _empty_tables  # type: ignore[method-assign]


LEFTOVERS = pytest.StashKey[Leftovers]()

WORKERS = 5
"""Locking tests wait more than they compute, so five workers pay off on two cores."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run one file in this process.

    For each worker to start, and collect, takes longer than most files.
    """
    asked = [Path(str(argument).partition("::")[0]) for argument in config.args]
    return 0 if len(set(asked)) == 1 and asked[0].is_file() else WORKERS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Never run a verdict again, not even under `--reruns`: what it counts must never happen."""
    for item in items:
        if item.get_closest_marker("verdict"):
            item.add_marker(pytest.mark.flaky(reruns=0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test that leaves something behind, and not one that stumbles over it."""
    yield
    leftovers = item.config.stash.get(LEFTOVERS, None)
    if leftovers is not None and (left := leftovers.of_a_test()):
        pytest.fail(f"This test leaves {', '.join(left)}.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests were run once more: if they passed then, nothing else does."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"{report.nodeid} was run once more")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(scope="session", autouse=True)
def redis_server(
    redis_locks_server: EmbeddedServer, pytestconfig: pytest.Config
) -> Iterator[EmbeddedServer]:
    """The server of this test process, where the settings and the processes of tests find it."""
    server = redis_locks_server
    settings.CACHES["default"]["LOCATION"] = server.url
    # Whoever asked for the cache before, while tests were collected, must not keep the old address.
    setting_changed.send(sender=None, setting="CACHES", value=settings.CACHES, enter=True)
    settings.REDIS_URL = server.url
    os.environ["REDIS_LOCKS_TEST_URL"] = server.url
    pytestconfig.stash[LEFTOVERS] = Leftovers(server.url)
    yield server
    del pytestconfig.stash[LEFTOVERS]
    from tests.support.connections import stop_listening

    stop_listening(server.url)
    os.environ.pop("REDIS_LOCKS_TEST_URL", None)


@pytest.fixture
def private_server() -> Iterator[EmbeddedServer]:
    """A server of this test alone, to be killed and restarted at will."""
    from tests.support.connections import stop_listening

    with EmbeddedServer(use_environment=False) as server:
        yield server
        stop_listening(server.url)


@pytest.fixture
def proxy(redis_server: EmbeddedServer) -> Iterator[Proxy]:
    """A way to the server that can be cut, and that can lose replies."""
    with Proxy(redis_server.url) as made:
        yield made


@pytest.fixture
def client(redis_server: EmbeddedServer) -> Iterator[redis.Redis]:
    """A plain redis-py client of the test process's server."""
    with redis_server.client() as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A lock name that no other test uses."""
    return f"test:{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def postgres_server(django_db_blocker: Any) -> Iterator[dict[str, Any]]:
    """The DATABASES entry of this test process's own PostgreSQL, with the tables of the tests."""
    missing = postgresql.missing()
    if missing is not None:
        if os.environ.get("CI"):
            pytest.fail(f"{missing}; CI must run these tests")
        pytest.skip(missing)
    from tests.ledger.models import (
        Counter,
        DoneJob,
        Entry,
        Guarded,
        NotedCounter,
        Titled,
        TitledCounter,
    )

    with django_db_blocker.unblock(), postgresql.server() as entry:
        with (
            postgresql.configured(entry) as alias,
            connections[alias].schema_editor() as editor,
        ):
            for model in (Counter, NotedCounter, Entry, Titled, TitledCounter, Guarded, DoneJob):
                editor.create_model(model)
        yield entry


@pytest.fixture
def postgres(
    postgres_server: dict[str, Any], transactional_db: None, django_db_blocker: Any
) -> Iterator[str]:
    """The alias of a database on PostgreSQL; its tables are empty."""
    from tests.ledger.models import (
        Counter,
        DoneJob,
        Entry,
        Guarded,
        NotedCounter,
        TitledCounter,
    )

    with django_db_blocker.unblock(), postgresql.configured(postgres_server) as alias:
        yield alias
        for model in (Guarded, TitledCounter, Entry, NotedCounter, Counter, DoneJob):
            model._base_manager.using(alias).all().delete()


@pytest.fixture(params=["default", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, transactional_db: None) -> str:
    """The alias of a database whose transactions really commit: SQLite, then PostgreSQL."""
    if request.param == "postgres":
        request.getfixturevalue("postgres")
    return str(request.param)
