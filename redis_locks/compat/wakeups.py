"""Connections on which waiters are notified, made from the options of the user's client.

They are not from its pool: a waiting thread would keep a connection that others need for a release,
and the client's `socket_timeout` would end the wait. Lock commands go over the user's client.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio as aioredis
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelConnectionPool
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.sentinel import SentinelConnectionPool

from redis_locks.drivers.asynchronous import AsyncDriver
from redis_locks.drivers.base import Driver, Link, Unreachable
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.loop_drivers import LoopDrivers

PREFIX = "redis_locks:compat"
"""How the names of the channels begin. Not from the settings: these locks work without Django."""

_BLOCKING_TWIN: dict[type[Any], type[Any]] = {
    aioredis.SSLConnection: SSLConnection,
    aioredis.UnixDomainSocketConnection: UnixDomainSocketConnection,
    aioredis.Connection: Connection,
}

_drivers: WeakKeyDictionary[object, BlockingDriver] = WeakKeyDictionary()
_loop_drivers: WeakKeyDictionary[object, LoopDrivers] = WeakKeyDictionary()


class _Deaf:
    """A driver for a client whose server only the client itself can find (Cluster, Sentinel)."""

    async def checkout(self) -> Link:
        msg = "there are no signals over this client"
        raise Unreachable(msg)

    checkout_to_wait = checkout


class _DeafBlockingDriver(_Deaf, BlockingDriver):
    pass


class _DeafAsyncDriver(_Deaf, AsyncDriver):
    pass


_NOWHERE = Endpoint(Connection, {}, "a client without signals")


async def driver_of(client: Any) -> Driver:
    """Return the driver for the waits of a blocking client. Connects to nothing."""
    anchor = getattr(client, "connection_pool", client)
    found = _drivers.get(anchor)
    if found is None:
        endpoint = _blocking_endpoint(client)
        found = (
            _DeafBlockingDriver(_NOWHERE, PREFIX)
            if endpoint is None
            else BlockingDriver(endpoint, PREFIX)
        )
        found = _drivers.setdefault(anchor, found)
    return found


async def loop_driver_of(client: Any) -> Driver:
    """Return the running loop's driver for the waits of an asyncio client."""
    anchor = getattr(client, "connection_pool", client)
    found = _loop_drivers.get(anchor)
    if found is None:
        endpoint = _async_endpoint(client)
        if endpoint is None:
            return _DeafAsyncDriver(_NOWHERE, PREFIX)
        found = _loop_drivers.setdefault(anchor, LoopDrivers(endpoint, PREFIX))
    return await found.get()


def _blocking_endpoint(client: Any) -> Endpoint | None:
    if isinstance(client, redis.Redis) and not isinstance(
        client.connection_pool, SentinelConnectionPool
    ):
        with suppress(KeyError, TypeError, ValueError, redis.RedisError):
            endpoint = Endpoint.from_client(client)
            endpoint.blocking_connection()  # does not connect, but raises for options that it does not accept
            return endpoint
    return None


def _async_endpoint(client: Any) -> Endpoint | None:
    if isinstance(client, aioredis.Redis) and not isinstance(
        client.connection_pool, AsyncSentinelConnectionPool
    ):
        with suppress(KeyError, StopIteration, TypeError, ValueError, redis.RedisError):
            theirs: Any = client
            endpoint = Endpoint.from_client(theirs)
            blocking = next(
                twin
                for asynchronous, twin in _BLOCKING_TWIN.items()
                if issubclass(endpoint.connection_class, asynchronous)
            )
            endpoint = replace(endpoint, connection_class=blocking)
            endpoint.async_connection()
            return endpoint
    return None
