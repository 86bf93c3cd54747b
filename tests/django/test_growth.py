"""What a lock takes of the memory of server and process."""

from __future__ import annotations

import gc
import shutil
import sys
import warnings
from typing import Any

import pytest
import redis

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.support.keys import new_token
from tests.support.parties import MINUTES, ask

WHO = {"host": "web-5d9c7b7f4-x2k", "label": "POST /accounts/1234/withdraw"}
"""As long as names of hosts are in clusters; one that is longer, or a longer label, takes more."""

LOCKS, WAITERS = 300, 200  # too many for the compact form of an index


@pytest.fixture(params=["embedded", "redis-server"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server of this test alone: the embedded one, and Redis where it is installed."""
    if request.param != "embedded":
        if shutil.which(request.param) is None:
            pytest.skip(f"there is no {request.param}")
        monkeypatch.setenv("REDIS_LOCKS_SERVER", request.param)
    with EmbeddedServer(use_environment=False) as started:
        yield started


def size(client: redis.Redis) -> int:
    """Bytes that all keys of the server take, by its own count."""
    return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(count=1000))


def test_a_held_lock_and_a_waiter_take_little_of_the_server_s_memory(
    server: EmbeddedServer,
) -> None:
    with server.client() as client:
        for names, most in (
            ([f"account:{number}" for number in range(LOCKS)], 550),
            (["account:0"] * WAITERS, 300),
        ):
            before = size(client)
            ask([(each, new_token()) for each in names], wait=MINUTES, using=server.url, **WHO)
            assert (size(client) - before) / len(names) <= most


def growth(acquires: int, name: str) -> int:
    """Return by how many blocks of memory so many acquires let this process grow."""

    def cycle(times: int) -> int:
        for number in range(times):
            with Lock(f"{name}:{number % 10}"):
                pass
        gc.collect()
        return sys.getallocatedblocks()

    before = cycle(200)
    return cycle(acquires) - before


@pytest.mark.parametrize(
    "acquires",
    [pytest.param(1_000, marks=pytest.mark.ci), pytest.param(10_000, marks=pytest.mark.long)],
)
def test_acquires_leave_the_process_no_larger(name: str, acquires: int) -> None:
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # what other tests of this process left open is not of this one
    # Less than one object for ten acquires. A leak shows each time; what other threads of the
    # process begin to keep, and what coverage notes of lines it had not seen, does not.
    assert min(growth(acquires, name) for _ in range(3)) < acquires / 10
