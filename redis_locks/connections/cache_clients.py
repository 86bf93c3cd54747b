"""The Redis clients behind Django's caches, and whether a client talks to one server."""

from __future__ import annotations

import re

import redis
from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache as DjangoRedisCache
from django.core.exceptions import ImproperlyConfigured
from django_redis import get_redis_connection
from django_redis.cache import RedisCache as PackageRedisCache
from django_redis.client import ShardClient
from redis.sentinel import SentinelConnectionPool

from redis_locks.drivers.addresses import check_database


def clients_of_cache(alias: str) -> list[redis.Redis]:
    """The clients of all servers to which a cache writes: one, but with django-redis's ShardClient.

    Connects to nothing.

    Raises:
        ImproperlyConfigured: The cache is not on Redis, or cannot be used.
    """
    try:
        return [single_server(client, f"CACHES[{alias!r}]") for client in _clients_of(alias)]
    except ImproperlyConfigured:
        raise
    except Exception as error:
        # A backend imports and calls what its OPTIONS name, so any error can come out.
        msg = (
            f"redis_locks: CACHES[{alias!r}] cannot be used: {type(error).__name__} while "
            "its client was built. Check its LOCATION and OPTIONS."
        )
        raise ImproperlyConfigured(msg) from error


def _clients_of(alias: str) -> list[object]:
    # A backend object of our own: Django's keeps its pools per thread and per object.
    backend = caches.create_connection(alias)
    where = caches.settings[alias].get("LOCATION")
    if isinstance(backend, (DjangoRedisCache, PackageRedisCache)) and not where:
        # Said by us, as the packages' own words name neither.
        msg = (
            f"redis_locks: CACHES[{alias!r}]['LOCATION'] is {where!r}. Give the address of the server, "
            "such as 'redis://localhost:6379/1'."
        )
        raise ImproperlyConfigured(msg)
    for location in [where] if isinstance(where, str) else where or ():
        for url in re.split("[;,]", location):
            if "://" in url:
                check_database(url)
    if isinstance(backend, DjangoRedisCache):
        return [backend._cache.get_client(None, write=True)]  # noqa: SLF001 - no public way
    if isinstance(backend, PackageRedisCache):
        client = backend.client
        if isinstance(client, ShardClient):
            return list(client._serverdict.values())  # noqa: SLF001 - as above
        return [get_redis_connection(alias, write=True)]
    msg = (
        f"redis_locks: CACHES[{alias!r}] is a {type(backend).__name__}, which is not on "
        "Redis. Use an alias of django-redis or of Django's Redis cache, or a URL."
    )
    raise ImproperlyConfigured(msg)


def single_server(client: object, origin: str) -> redis.Redis:
    """Return ``client`` if it talks to one server; ``origin`` says where it comes from.

    Raises:
        ImproperlyConfigured: It is no client, or one of several servers.
    """
    if isinstance(client, redis.Redis):
        pool = client.connection_pool
        if isinstance(pool, SentinelConnectionPool) and not pool.is_master:
            msg = (
                f"redis_locks: {origin} is for reading from replicas (slave_for). Give what "
                "Sentinel.master_for() returns."
            )
            raise ImproperlyConfigured(msg)
        return client
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    advice = "It must be a redis.Redis of one primary."
    msg = f"redis_locks: {origin} gives a {kind}. {advice}"
    raise ImproperlyConfigured(msg)
