"""What a process remembers to ask faster is bounded, however its locks are described."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from redis_locks import Lock
from redis_locks.connections.backends import backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.drivers.blocking import BlockingDriver, BlockingLink
from redis_locks.locks.options import options_of
from redis_locks.testing.server import EmbeddedServer


@pytest.fixture
def link(own_server: EmbeddedServer) -> Iterator[BlockingLink]:
    """The only idle connection of a server."""
    driver = backend_for(own_server.url).driver
    assert isinstance(driver, BlockingDriver)
    driver.drop_idle()
    found = run_blocking(driver.checkout())
    assert isinstance(found, BlockingLink)
    driver.checkin(found)
    yield found
    driver.drop_idle()


def test_waits_of_a_new_length_each_time_leave_few_ends_of_packets(
    link: BlockingLink, own_server: EmbeddedServer, name: str
) -> None:
    lock = Lock(name, using=own_server.url)
    for wait in range(1, 600):
        hold = lock.acquire(wait=wait)
        assert hold is not None
        hold.release()
    assert 0 < len(link.tails) <= 256


@pytest.mark.usefixtures("link")
def test_labels_that_are_new_each_time_leave_few_terms(
    own_server: EmbeddedServer, name: str
) -> None:
    for number in range(1100):
        with Lock(name, using=own_server.url, label=f"request {number}"):
            pass
    assert 0 < len(backend_for(own_server.url).terms) <= 512
    kept: Any = options_of.__closure__  # type: ignore[attr-defined]
    (known,) = (cell.cell_contents for cell in kept if hasattr(cell.cell_contents, "cache_info"))
    assert 0 < known.cache_info().currsize <= 512


def test_no_stack_of_another_thread_is_read_unless_somebody_around_has_the_lock(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    frames = sys._current_frames
    monkeypatch.setattr(sys, "_current_frames", lambda: read.append(1) or frames())

    async def take(name: str) -> None:
        async with Lock(name, wait=0):
            pass

    with Lock(name):
        async_to_sync(take)(f"{name}:other")
        assert not read
        async_to_sync(take)(name)
        assert read
