"""From a setting to a server: endpoints, drivers and links, and the errors that links raise."""

from __future__ import annotations

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
]
