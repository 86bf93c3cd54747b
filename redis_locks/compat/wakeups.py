"""Connections on which waiters are notified, made from the options of the user's client.

They are not from its pool. A waiting thread would keep a connection that others need for a release.
The client's `socket_timeout` would end the wait. Lock commands go over the user's client.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio as aioredis
from redis.connection import Connection

from redis_locks.compat.client_errors import is_of_valkey
from redis_locks.connections.event_loops import PerLoop
from redis_locks.drivers.asynchronous import AsyncDriver
from redis_locks.drivers.base import Driver, Link, Unreachable
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.exceptions import LockBackendError

PREFIX = "redis_locks:compat"
"""How the names of the channels begin. Not from the settings: these locks work without Django."""

_drivers: WeakKeyDictionary[object, BlockingDriver] = WeakKeyDictionary()
_loop_drivers: WeakKeyDictionary[object, PerLoop[AsyncDriver]] = WeakKeyDictionary()


class _WithoutServer:
    """A driver for a client whose server only the client itself can find (Cluster, Sentinel)."""

    async def checkout(self, token: str = "") -> Link:  # noqa: ARG002 - as `Driver`
        raise Unreachable("there are no signals over this client")


class _BlockingDriverWithoutServer(_WithoutServer, BlockingDriver):
    pass


class _AsyncDriverWithoutServer(_WithoutServer, AsyncDriver):
    pass


_NOWHERE = Endpoint(Connection, {}, "a client without signals")


def driver_of(client: Any) -> Driver:
    """Return the driver for the waits of a blocking client. Connects to nothing."""
    anchor = getattr(client, "connection_pool", client)
    driver = _drivers.get(anchor)
    if driver is None:
        endpoint = _endpoint(client, redis.Redis, Endpoint.blocking_connection)
        kind = _BlockingDriverWithoutServer if endpoint is None else BlockingDriver
        driver = _drivers.setdefault(anchor, kind(endpoint or _NOWHERE, PREFIX))
    return driver


async def loop_driver_of(client: Any) -> Driver:
    """Return the running loop's driver for the waits of an asyncio client."""
    anchor = getattr(client, "connection_pool", client)
    driver = _loop_drivers.get(anchor)
    if driver is None:
        endpoint = _endpoint(client, aioredis.Redis, Endpoint.async_connection)
        if endpoint is None:
            return _AsyncDriverWithoutServer(_NOWHERE, PREFIX)
        driver = _loop_drivers.setdefault(
            anchor, PerLoop(partial(AsyncDriver, endpoint, PREFIX), AsyncDriver.aclose)
        )
    return driver.get()


def _endpoint(
    client: Any, ours: type[Any], make_connection: Callable[[Endpoint], object]
) -> Endpoint | None:
    if _has_one_server(client, ours):
        with suppress(KeyError, LockBackendError, TypeError, ValueError, redis.RedisError):
            endpoint = Endpoint.from_pool(client.connection_pool)
            # It does not connect, but raises for options that it does not accept.
            make_connection(endpoint)
            return endpoint
    return None


def _has_one_server(client: Any, ours: type[Any]) -> bool:
    """Whether it is a client of redis-py or valkey-py for one server whose address is known."""
    known = isinstance(client, ours) or is_of_valkey(client)
    pool = getattr(client, "connection_pool", None)
    return known and pool is not None and not hasattr(pool, "sentinel_manager")
