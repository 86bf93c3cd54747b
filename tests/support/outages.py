"""A server that goes away, and locks that go on without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import override_settings

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer

REPLY = 1.0
"""Seconds in which the server of a busy machine answers."""

RELEASE = 0.5

BRIEF = 3.0
"""A lease that ends in an outage, in seconds.

A third through, its renewal begins to wait for a reply.
"""


@contextmanager
def going_away() -> Iterator[EmbeddedServer]:
    """A server for whose replies nobody waits for long."""
    timeouts = {"REPLY_TIMEOUT": REPLY, "RELEASE_TIMEOUT": RELEASE, "STATISTICS": False}
    with EmbeddedServer(use_environment=False) as found, override_settings(REDIS_LOCKS=timeouts):
        yield found


def proceeding(server: EmbeddedServer, name: str, **options: Any) -> Lock:
    return Lock(name, using=server.url, on_unavailable="proceed", **options)


def lines(caplog: pytest.LogCaptureFixture, text: str = "proceed") -> list[str]:
    """Return what the log says of that."""
    found = [each.getMessage() for each in caplog.records if each.name == "redis_locks"]
    return [line for line in found if text in line]
