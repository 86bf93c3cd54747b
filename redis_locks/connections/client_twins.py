"""Clients of redis.asyncio and of valkey-py, as blocking clients of redis-py for the same server.

valkey-py is a fork of redis-py, so the classes of its connections have twins of the same names
there.
"""

from __future__ import annotations

import sys
from typing import Any

import redis
import redis.asyncio as aioredis
from redis.retry import Retry

from redis_locks.drivers.endpoint import Endpoint

# How replies look to who uses the client.
_SHAPE = ("decode_responses", "encoding", "encoding_errors")


def _classes(name: str) -> tuple[type[Any], ...]:
    """Return the classes, blocking and asyncio, of that name in valkey-py.

    None if nobody has imported it.
    """
    modules = (sys.modules.get(module) for module in ("valkey", "valkey.asyncio"))
    return tuple(getattr(module, name) for module in modules if hasattr(module, name))


def blocking_twin(client: object) -> redis.Redis | None:
    """Return a blocking redis-py client for the server of another client; None: there is no twin.

    Connects to nothing.

    Raises:
        LockBackendError: The client has an option that redis-py does not know.
    """
    if not isinstance(client, (aioredis.Redis, *_classes("Valkey"))):
        return None
    pool: Any = client.connection_pool  # type: ignore[attr-defined]
    endpoint = Endpoint.from_pool(pool)
    options = {
        name: pool.connection_kwargs[name] for name in _SHAPE if name in pool.connection_kwargs
    }
    if endpoint.retry is not None:
        options["retry"] = Retry(endpoint.retry._backoff, endpoint.retry._retries)  # noqa: SLF001 - no public names
    return redis.Redis.from_pool(
        redis.ConnectionPool(endpoint.connection_class, **{**endpoint.kwargs, **options})
    )


def is_other_cluster(client: object) -> bool:
    """Whether it is a client of a cluster, but no blocking one of redis-py."""
    return isinstance(client, (aioredis.RedisCluster, *_classes("ValkeyCluster")))
