"""What a lock takes of the memory of server and process."""

from __future__ import annotations

import gc
import shutil
import socket
import warnings
from typing import Any

import pytest

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks import sizes
from tests.support import parties

HOST = "web-5d9c7b7f4-x2k"
"""As long as names of hosts are in clusters; one that is longer, or a longer label, takes more."""


@pytest.fixture(params=["embedded", "redis-server"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server of this test alone: the embedded one, and Redis where it is installed."""
    if request.param != "embedded":
        if shutil.which(request.param) is None:
            pytest.skip(f"there is no {request.param}")
        monkeypatch.setenv("REDIS_LOCKS_SERVER", request.param)
    with EmbeddedServer(use_environment=False) as started:
        yield started


def test_a_held_lock_and_a_waiter_take_little_of_the_server_s_memory(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    parties.forget_this_host()
    held, waiter = sizes.sizes(server)
    assert held <= 550
    assert waiter <= 300


@pytest.mark.parametrize(
    "acquires",
    [pytest.param(1_000, marks=pytest.mark.ci), pytest.param(10_000, marks=pytest.mark.long)],
)
def test_acquires_leave_the_process_no_larger(name: str, acquires: int) -> None:
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # what other tests of this process left open is not of this one
    # Less than one object for ten acquires. A leak shows each time; what other threads of the
    # process begin to keep, and what coverage notes of lines it had not seen, does not.
    assert min(sizes.growth(Lock, acquires, name) for _ in range(3)) < acquires / 10
