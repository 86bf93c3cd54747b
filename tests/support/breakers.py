"""The breakers of servers."""

from __future__ import annotations

from redis_locks.connections.backends import backend_for
from redis_locks.drivers import breaker
from redis_locks.drivers.base import CutShort, Unreachable
from redis_locks.drivers.breaker import Breaker

__all__ = ["Breaker", "CutShort", "Unreachable", "breaker", "breaker_at"]


def breaker_at(using: str) -> Breaker:
    """The breaker of a single server."""
    (breaker,) = backend_for(using).driver.breakers
    assert isinstance(breaker, Breaker)
    return breaker
