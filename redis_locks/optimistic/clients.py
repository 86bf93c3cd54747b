"""Where watched keys live, and the links to their servers, which only transactions use.

A link asks nothing twice by itself. After a lost reply, redis-py's retries would send the
MULTI/EXEC again; a cluster client would even omit the WATCH. Replies look as those of the user's
client.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal

import redis
import redis.asyncio as aioredis
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from redis.crc import key_slot

from redis_locks.conf.settings import get_settings
from redis_locks.connections.cache_clients import single_server
from redis_locks.connections.event_loops import PerLoop
from redis_locks.connections.resolution import client_of
from redis_locks.connections.shared_databases import caches_elsewhere
from redis_locks.drivers.asynchronous import UnsharedDriver
from redis_locks.drivers.base import Driver, LinkBroken
from redis_locks.drivers.blocking import BlockingDriver
from redis_locks.drivers.connection_options import without_notifications
from redis_locks.drivers.endpoint import Endpoint, Shape
from redis_locks.optimistic.packets import UNWATCH
from redis_locks.optimistic.pipelines import AsyncWatchingPipeline, WatchingPipeline

Using = str | redis.Redis | redis.RedisCluster | None
"""A name in SERVERS, a CACHES alias, a URL, a dotted path or a client; None is the default server.
"""


_WIRE = {
    "pack_command", "pack_commands", "read_response", "send_command", "send_packed_command",
}  # fmt: skip
"""The methods by which redis-py's connections send and receive."""


def _require_plain(kind: type[Any]) -> None:
    """Raise ImproperlyConfigured if connections of a class do more than send and receive bytes."""
    for base in kind.__mro__:
        if (own := _WIRE & vars(base).keys()) and not base.__module__.startswith("redis."):
            raise ImproperlyConfigured(
                f"redis_locks: {base.__qualname__}, the connection class of the client given as "
                f"`using`, has its own {', '.join(sorted(own))}, but optimistic uses only the "
                "socket of a connection. Give a client without one"
            )


class Server:
    """One server, and the links to it, each of which has one user at a time."""

    is_one_server: Literal[True] = True
    """Whether a transaction can touch any two keys."""

    def __init__(self, client: redis.Redis) -> None:
        if client.connection_pool.connection_kwargs.get("command_packer") is not None:
            raise ImproperlyConfigured(
                "redis_locks: the client given as `using` has a command_packer, but optimistic "
                "packs its commands by itself. Give a client without one"
            )
        shape = Shape(client.connection_pool)
        endpoint = replace(Endpoint.from_client(client), shape=shape)
        self.description = endpoint.description
        self.reply_timeout = endpoint.reply_timeout
        """Seconds until an unanswered command counts as failed."""
        self._endpoint = endpoint
        _require_plain(endpoint.connection_class)
        self._driver = BlockingDriver(endpoint, "")
        self._of_loops = PerLoop(partial(UnsharedDriver, endpoint, ""), UnsharedDriver.aclose)
        self._options = shape.options

    def links(self, *, suspends: bool) -> Driver:
        """Return the links of threads; if the caller `suspends`, of the running loop's tasks."""
        return self._of_loops.get() if suspends else self._driver

    def pipeline(self, link: Any, *, suspends: bool) -> WatchingPipeline | AsyncWatchingPipeline:
        """Return a pipeline whose keys are watched on a link."""
        if suspends:
            return AsyncWatchingPipeline(self._async_client, link)
        return WatchingPipeline(self._client, link)

    @cached_property
    def _client(self) -> redis.Redis:
        """A client that connects to nothing: pipelines have its callbacks."""
        quiet = without_notifications(redis.ConnectionPool)
        options = {**self._endpoint.kwargs, **self._options, **quiet}
        return redis.Redis.from_pool(
            redis.ConnectionPool(self._endpoint.connection_class, **options)
        )

    @cached_property
    def _async_client(self) -> aioredis.Redis:
        """The same for asyncio."""
        kind, options = self._endpoint.in_loop()
        options |= self._options | without_notifications(aioredis.ConnectionPool)
        return aioredis.Redis.from_pool(aioredis.ConnectionPool(kind, **options))

    def server(self, key: str) -> Server:  # noqa: ARG002 - as `Cluster`
        """Return this server, whatever the key."""
        return self

    def refresh(self) -> None:
        """Nothing to ask."""


class Cluster:
    """A cluster: each transaction runs on the one server that has its slot."""

    is_one_server: Literal[False] = False

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
                raise ValueError(
                    f"{keys[0]!r} (slot {slots[keys[0]]}) and {key!r} (slot {slots[key]}) are in "
                    "different slots of the cluster, which no transaction can span. Give the keys "
                    "one hash tag, as in 'bank:{17}:from' and 'bank:{17}:to', without other braces"
                )

    def server(self, key: str) -> Server:
        """Return the key's primary."""
        node: Any = self._client().get_node_from_key(key)  # type: ignore[no-untyped-call]
        server = self._servers.get(node.name)
        if server is None:
            server = self._servers.setdefault(node.name, Server(node.redis_connection))
        return server

    def refresh(self) -> None:
        """Ask the cluster again which server has which slots. Blocks."""
        self._client().nodes_manager.initialize()


Source = Server | Cluster
"""The server, or the cluster, of some keys."""


async def give_back(driver: Driver, link: Any, *, watches: bool) -> None:
    """Give a link back that may watch keys still, unless something is under way on it.

    Then it is closed.
    """
    try:
        if watches and not link.broken and not link.is_waiting:
            await link.round_trip(UNWATCH, 1)
    except LinkBroken:
        pass  # and so it is dropped
    except BaseException:
        link.close()  # it may watch still
        raise
    finally:
        driver.checkin(link)


_named: dict[str | None, Source] = {}
_given: weakref.WeakKeyDictionary[redis.Redis | redis.RedisCluster, Source] = (
    weakref.WeakKeyDictionary()
)


def source_of(using: Using) -> Source:
    """Return the source that `using` names. Connects to nothing but to a cluster that is named.

    Raises:
        ImproperlyConfigured: It names nothing, or a client of several servers. Or it is None, and
            the keys may be in the database of a cache as well.
    """
    if using is None or isinstance(using, str):
        known = _named.get(using)
        if known is None:
            made = _source(client_of(using))
            if using is None:
                _require_only_database(made)
            known = _named.setdefault(using, made)
        return known
    source = _given.get(using)
    if source is None:
        source = _given.setdefault(using, _source(using))
    return source


def _require_only_database(source: Source) -> None:
    """Raise ImproperlyConfigured if a cache is in another database.

    The keys may well be there, and nobody would notice.
    """
    elsewhere = caches_elsewhere()
    if elsewhere:
        caches = ", ".join(f"CACHES[{alias!r}] {where}" for alias, where in elsewhere.items())
        raise ImproperlyConfigured(
            "redis_locks: optimistic cannot tell in which database the keys are: the locks are in "
            f"{source.description}, {caches}. Say which: using={next(iter(elsewhere))!r}, or what "
            f"{get_settings().entry(None)} names"
        )


def _source(client: redis.Redis | redis.RedisCluster) -> Source:
    if isinstance(client, redis.RedisCluster):
        return Cluster(client)
    return Server(single_server(client, "using"))


def require_using(using: object) -> None:
    """Raise TypeError unless `using` is of a type that can name a source."""
    if isinstance(using, aioredis.Redis | aioredis.RedisCluster):
        raise TypeError(
            "using must be a blocking client even for async code, which gets connections of its "
            f"own made from its options; not {type(using).__name__} of redis.asyncio"
        )
    if using is not None and not isinstance(using, str | redis.Redis | redis.RedisCluster):
        raise TypeError(
            "using must be a CACHES alias, a URL, a dotted path, a redis.Redis, a "
            f"redis.RedisCluster or None, not {using!r} ({type(using).__name__})"
        )


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"CACHES", "REDIS_LOCKS"}:
        _named.clear()


setting_changed.connect(_forget, dispatch_uid="redis_locks.optimistic")
