"""Where watched keys live, and clients for them, with connections of our own and without retries.

After a lost reply, redis-py's retries would send the MULTI/EXEC again; a cluster client would even
omit the WATCH. So these clients never retry. Their pools have no limit of connections.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import redis
import redis.asyncio as aioredis
from django.core.signals import setting_changed
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from redis_locks.connections.cache_clients import single_server
from redis_locks.connections.event_loops import PerLoop
from redis_locks.connections.resolution import client_of
from redis_locks.drivers.endpoint import Endpoint

Using = str | redis.Redis | redis.RedisCluster | None
"""A name in SERVERS, a CACHES alias, a URL, a dotted path or a client; None is the default server."""

# The options that decide how replies look to the user's function.
_SHAPE = ("decode_responses", "legacy_responses", "protocol")
_UNLIMITED = 2**31


class Source(Protocol):
    """The server, or the cluster, of some keys."""

    description: str
    reply_timeout: float
    """Seconds until an unanswered command counts as failed."""
    is_one_server: bool
    """Whether a transaction can touch any two keys."""

    def require_one_slot(self, keys: tuple[str, ...]) -> None:
        """Raise ValueError if no transaction can watch all these keys."""

    def blocking(self, key: str) -> redis.Redis:
        """Return a client of the server that has the key."""

    async def of_loop(self, key: str) -> aioredis.Redis:
        """Return the running loop's client of the server that has the key."""

    def refresh(self) -> None:
        """Ask again which server has which keys."""


class Server:
    """One server."""

    is_one_server = True

    def __init__(self, client: redis.Redis) -> None:
        endpoint = Endpoint.from_client(client)
        given = client.connection_pool.connection_kwargs
        self.description = endpoint.description
        self.reply_timeout = endpoint.reply_timeout
        self._endpoint = endpoint
        self._options: dict[str, Any] = {
            **{option: given[option] for option in _SHAPE if option in given},
            "socket_timeout": endpoint.reply_timeout,
            "socket_connect_timeout": endpoint.connect_timeout,
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
            "max_connections": _UNLIMITED,
        }
        self._client = redis.Redis.from_pool(
            redis.ConnectionPool(
                endpoint.connection_class,
                retry=Retry(NoBackoff(), 0),
                **{**endpoint.kwargs, **self._options},
            )
        )
        self._async_clients = PerLoop(self._async_client, aioredis.Redis.aclose)

    def _async_client(self) -> aioredis.Redis:
        kind, options = self._endpoint.in_loop()
        options |= self._options
        return aioredis.Redis.from_pool(
            aioredis.ConnectionPool(kind, retry=AsyncRetry(NoBackoff(), 0), **options)
        )

    def require_one_slot(self, keys: tuple[str, ...]) -> None:
        """Nothing to check: one server has all keys."""

    def blocking(self, key: str) -> redis.Redis:
        """Return the process's client, whatever the key."""
        del key
        return self._client

    async def of_loop(self, key: str) -> aioredis.Redis:
        """Return the running loop's client, whatever the key."""
        del key
        return await self._async_clients.get()

    def refresh(self) -> None:
        """Nothing to ask."""


class Cluster:
    """A cluster: each transaction runs on the one server that has its slot."""

    is_one_server = False

    def __init__(self, client: redis.RedisCluster) -> None:
        # Weak, because otherwise the table below would keep its own keys alive.
        self._cluster = weakref.ref(client)
        self._servers: dict[str, Server] = {}
        node: Any = client.get_default_node()  # type: ignore[no-untyped-call]
        self.description = f"the cluster of {node.name}"
        self.reply_timeout = Endpoint.from_client(node.redis_connection).reply_timeout

    def _client(self) -> redis.RedisCluster:
        client = self._cluster()
        if client is None:
            msg = "the cluster client given as `using` is gone; keep a reference to it"
            raise RuntimeError(msg)
        return client

    def require_one_slot(self, keys: tuple[str, ...]) -> None:
        """Raise ValueError, naming two keys, if they are not all in one slot."""
        slots = {key: key_slot(key.encode()) for key in keys}
        for key in keys[1:]:
            if slots[key] != slots[keys[0]]:
                msg = (
                    f"{keys[0]!r} (slot {slots[keys[0]]}) and {key!r} (slot {slots[key]}) are in "
                    "different slots of the cluster, which no transaction can span. Give the keys "
                    "one hash tag, as in 'bank:{17}:from' and 'bank:{17}:to', without other braces"
                )
                raise ValueError(msg)

    def _server(self, key: str) -> Server:
        node: Any = self._client().get_node_from_key(key)  # type: ignore[no-untyped-call]
        server = self._servers.get(node.name)
        if server is None:
            server = self._servers.setdefault(node.name, Server(node.redis_connection))
        return server

    def blocking(self, key: str) -> redis.Redis:
        """Return a client of the key's primary."""
        return self._server(key).blocking(key)

    async def of_loop(self, key: str) -> aioredis.Redis:
        """Return the running loop's client of the key's primary."""
        return await self._server(key).of_loop(key)

    def refresh(self) -> None:
        """Ask the cluster again which server has which slots. Blocks."""
        self._client().nodes_manager.initialize()


_named: dict[str | None, Source] = {}
_given: weakref.WeakKeyDictionary[redis.Redis | redis.RedisCluster, Source] = (
    weakref.WeakKeyDictionary()
)


def source_of(using: Using) -> Source:
    """Return the source that `using` names. Connects to nothing but to a cluster that is named.

    Raises:
        ImproperlyConfigured: It names nothing, or a client of several servers.
    """
    if using is None or isinstance(using, str):
        found = _named.get(using)
        return found or _named.setdefault(using, _source(client_of(using)))
    source = _given.get(using)
    if source is None:
        source = _given.setdefault(using, _source(using))
    return source


def _source(client: redis.Redis | redis.RedisCluster) -> Source:
    if isinstance(client, redis.RedisCluster):
        return Cluster(client)
    return Server(single_server(client, "using"))


def require_using(using: object) -> None:
    """Raise TypeError unless `using` is of a type that can name a source."""
    if isinstance(using, aioredis.Redis | aioredis.RedisCluster):
        msg = (
            "using must be a blocking client even for async code, which gets connections of its own "
            f"made from its options; not {type(using).__name__} of redis.asyncio"
        )
        raise TypeError(msg)
    if using is not None and not isinstance(using, str | redis.Redis | redis.RedisCluster):
        msg = (
            "using must be a CACHES alias, a URL, a dotted path, a redis.Redis, a "
            f"redis.RedisCluster or None, not {using!r} ({type(using).__name__})"
        )
        raise TypeError(msg)


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"CACHES", "REDIS_LOCKS"}:
        _named.clear()


setting_changed.connect(_forget, dispatch_uid="redis_locks.optimistic")
