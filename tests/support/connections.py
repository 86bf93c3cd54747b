"""From a setting to a server: endpoints, drivers and links, and the errors that links raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redis_locks import connections
from redis_locks.backends import backend_for
from redis_locks.connections import resolve
from redis_locks.drivers.async_link import AsyncLink
from redis_locks.drivers.base import CutShort, LinkBroken, Unreachable, run_blocking
from redis_locks.drivers.blocking_link import BlockingLink
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.sentinel import Sentinels
from redis_locks.drivers.sentinel_url import client_of_url

__all__ = [
    "AsyncLink",
    "BlockingLink",
    "CutShort",
    "Endpoint",
    "LinkBroken",
    "Sentinels",
    "Unreachable",
    "backend_for",
    "client_of_url",
    "resolve",
    "run_blocking",
    "server_of",
    "use_for_default",
]


def server_of(hold: Any) -> str:
    """The address of the server that granted `hold`."""
    description: str = hold._backend.description
    return description


def use_for_default(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Locks that name no connection go to `url`, once connections are forgotten."""
    build: Callable[[Any], Any] = connections._build
    monkeypatch.setattr(
        connections, "_build", lambda spec: build(url if spec == "default" else spec)
    )
