from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as configured
from django.test import override_settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_locks.protocol import acquire, lease
from redis_locks.testing.server import EmbeddedServer
from tests.faults.proxy import Proxy
from tests.machines.library import KnownLockWait, LibraryMachine, known_leases
from tests.machines.scripted import ScriptMachine
from tests.support.world import PATIENCE, Tasks, Threads


@pytest.fixture
def script_machine(redis_server: EmbeddedServer) -> Iterator[type[ScriptMachine]]:
    # redis-py would repeat what took long on a busy machine, and so a first question.
    with redis_server.client(socket_timeout=None, retry=Retry(NoBackoff(), 0)) as client:
        yield type("TheScriptMachine", (ScriptMachine,), {"client": client})


@pytest.fixture(params=[1, 2], ids=["one partition", "two partitions"])
def partitions(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[Threads, Tasks], ids=["blocking", "async"])
def library_machine(
    request: pytest.FixtureRequest,
    partitions: int,
    redis_server: EmbeddedServer,
    name: str,
    client: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[type[LibraryMachine]]:
    # Who shows that it is there, or looks for a deadlock, just when a lock becomes free may lose
    # its connection by that, and so its place; see `lock`. On a slow machine there is time for
    # both.
    monkeypatch.setattr(acquire, "RECHECK", 10 * PATIENCE)
    for module in (acquire, lease):
        monkeypatch.setattr(module, "LockWait", KnownLockWait)
    monkeypatch.setattr(lease.Lease, "ask", known_leases.noting(lease.Lease.ask))
    world = request.param()
    ours = {"DEADLOCK_TIMEOUT": None, "PREFIX": name, "PARTITIONS": partitions}
    with (
        override_settings(REDIS_LOCKS={**configured.REDIS_LOCKS, **ours}),
        Proxy(redis_server.url) as proxy,
    ):
        parts = {
            "client": client,
            "prefix": name,
            "partitions": partitions,
            "proxy": proxy,
            "server_url": redis_server.url,
            "world": world,
        }
        yield type("TheLibraryMachine", (LibraryMachine,), parts)
        world.close()
