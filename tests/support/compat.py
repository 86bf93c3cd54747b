"""How the locks that take redis-py's place wait, and the script that they acquire with."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio as aioredis

from redis_locks.compat import waiters, wakeups
from redis_locks.compat.commands import ACQUIRE
from redis_locks.compat.waiters import POLL
from redis_locks.drivers.endpoint import Endpoint


def poll_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A waiter that hears nothing asks the server again after so many seconds."""
    monkeypatch.setattr(waiters, "_SHORTEST_POLL", seconds)
    monkeypatch.setattr(waiters, "POLL", seconds)


def is_told(client: Any) -> bool:
    """Whether waiters with this client are told of releases, and need not poll."""
    return wakeups._endpoint(client, redis.Redis, Endpoint.blocking_connection) is not None


def is_told_async(client: Any) -> bool:
    """Whether waiters with this client of asyncio are told of releases, and need not poll."""
    return wakeups._endpoint(client, aioredis.Redis, Endpoint.async_connection) is not None
