"""Where the server is and how to open connections of our own to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio as aioredis
from redis.asyncio import sentinel as async_sentinel
from redis.backoff import NoBackoff
from redis.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry
from redis.sentinel import (
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from redis_locks.drivers.sentinel import Sentinels

# Options of a client that make no sense for our connections, or differ between the two worlds.
_NOT_TAKEN_OVER = frozenset({
    "cache", "cache_config", "connection_pool", "decode_responses", "event_dispatcher", "health_check_interval",
    "lib_name", "lib_version", "maint_notifications_config", "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler", "orig_host_address", "orig_socket_timeout",
    "orig_socket_connect_timeout", "parser_class", "protocol", "redis_connect_func", "retry", "retry_on_error",
    "retry_on_timeout", "legacy_responses",
})  # fmt: skip

_ASYNC_TWIN: dict[type[Any], type[Any]] = {
    SentinelManagedSSLConnection: async_sentinel.SentinelManagedSSLConnection,
    SentinelManagedConnection: async_sentinel.SentinelManagedConnection,
    SSLConnection: aioredis.SSLConnection,
    UnixDomainSocketConnection: aioredis.UnixDomainSocketConnection,
    Connection: aioredis.Connection,
}

_SENTINEL_POOLS = (SentinelConnectionPool, async_sentinel.SentinelConnectionPool)

DEFAULT_TIMEOUT = 5.0
"""Seconds until an unanswered connect or command counts as failed, unless the client says otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A server: the connection class, its arguments, and a name for people without password.

    Connections made here always speak RESP3 (a grant arrives on the very connection that
    waits for it), never retry by themselves (we retry by token), and never decode.
    """

    connection_class: type[AbstractConnection]
    kwargs: Mapping[str, Any]
    description: str
    in_cluster: bool = False
    """Whether it is one node of several: its connections listen to partitions as they need them."""

    @classmethod
    def from_client(cls, client: redis.Redis) -> Endpoint:
        """Return the endpoint a redis-py client talks to. Connects to nothing."""
        pool = client.connection_pool
        return cls.from_pool(pool)

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """Return the endpoint of a redis://, rediss:// or unix:// URL. Connects to nothing.

        Raises:
            ValueError: The URL has another scheme or an option redis-py does not know.
        """
        return cls.from_pool(ConnectionPool.from_url(url))

    @classmethod
    def from_pool(cls, pool: Any) -> Endpoint:
        """Return the endpoint of a redis-py connection pool, blocking or asyncio."""
        kwargs = {
            key: value
            for key, value in pool.connection_kwargs.items()
            if key not in _NOT_TAKEN_OVER
        }
        if isinstance(pool, _SENTINEL_POOLS):
            kwargs = {key: kwargs[key] for key in kwargs if key not in {"host", "port"}}
            kwargs["connection_pool"] = Sentinels.of_pool(pool)
        return cls(pool.connection_class, kwargs, _describe(pool.connection_class, kwargs))

    @property
    def sentinels(self) -> Sentinels | None:
        """Who is asked for the address before each connection; None: it is a fixed one."""
        found = self.kwargs.get("connection_pool")
        return found if isinstance(found, Sentinels) else None

    @property
    def async_kwargs(self) -> Mapping[str, Any]:
        """The arguments of asyncio connections."""
        sentinels = self.sentinels
        return {**self.kwargs, "connection_pool": sentinels.in_loop} if sentinels else self.kwargs

    @property
    def connect_timeout(self) -> float:
        """Seconds until an unanswered connection attempt counts as failed."""
        value = self.kwargs.get("socket_connect_timeout")
        return DEFAULT_TIMEOUT if value is None else float(value)

    @property
    def reply_timeout(self) -> float:
        """Seconds until an unanswered command counts as failed."""
        value = self.kwargs.get("socket_timeout")
        return DEFAULT_TIMEOUT if value is None else float(value)

    def blocking_connection(self) -> AbstractConnection:
        """Return a new blocking connection, not yet connected."""
        return self.connection_class(
            **{
                **self.kwargs,
                **self._common(),
                "retry": Retry(NoBackoff(), 0),
                "socket_timeout": self.reply_timeout,
                "socket_connect_timeout": self.connect_timeout,
            }
        )

    def async_connection(self) -> Any:
        """Return a new asyncio connection, not yet connected, whose reads never time out by themselves.

        Raises:
            TypeError: The connection class has no asyncio twin.
        """
        twins = (
            twin
            for blocking, twin in _ASYNC_TWIN.items()
            if issubclass(self.connection_class, blocking)
        )
        twin = next(twins, None)
        if twin is None:
            msg = f"{self.connection_class.__name__} of {self.description} has no asyncio twin; use a plain URL"
            raise TypeError(msg)
        kwargs = {**self.async_kwargs, **self._common(), "socket_timeout": None}
        return twin(**kwargs)

    def _common(self) -> dict[str, Any]:
        return {
            "protocol": 3,
            "decode_responses": False,
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }


def _describe(connection_class: type[Any], kwargs: Mapping[str, Any]) -> str:
    db = kwargs.get("db") or 0
    if "path" in kwargs:
        return f"unix://{kwargs['path']}?db={db}"
    encrypted = issubclass(connection_class, SSLConnection | aioredis.SSLConnection)
    scheme = "rediss" if encrypted else "redis"
    sentinels = kwargs.get("connection_pool")
    if isinstance(sentinels, Sentinels):
        return f"{scheme}+sentinel://{sentinels.where}/{sentinels.service_name}/{db}"
    return f"{scheme}://{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}/{db}"
