"""The Redis clients behind Django's caches, and whether a client talks to one server.

No package of caches is imported here. Django has imported the backends that CACHES names.
"""

from __future__ import annotations

import re

import redis
from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache as DjangoRedisCache
from django.core.exceptions import ImproperlyConfigured

from redis_locks.connections.client_twins import blocking_twin
from redis_locks.drivers.addresses import check_database
from redis_locks.exceptions import LockBackendError

# Where a cache has what gives its clients: that of django-redis or django-valkey, and that of
# django-cachex.
_CLIENT_ATTRIBUTES = ("client", "adapter")

_ADVICE = (
    "It must be a redis.Redis or a valkey.Valkey of one primary. For a cluster, write "
    "'redis+cluster://host:port' instead, and for another client 'redis://host:port/1'."
)


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
        raise ImproperlyConfigured(
            f"redis_locks: CACHES[{alias!r}] cannot be used: {type(error).__name__} while "
            "its client was built. Check its LOCATION and OPTIONS."
        ) from error


def _clients_of(alias: str) -> list[object]:
    # A backend object of our own: Django's keeps its pools per thread and per object.
    backend = caches.create_connection(alias)
    where = caches.settings[alias].get("LOCATION")
    by_package = [name for name in _CLIENT_ATTRIBUTES if hasattr(type(backend), name)]
    if not isinstance(backend, DjangoRedisCache) and not by_package:
        raise ImproperlyConfigured(
            f"redis_locks: CACHES[{alias!r}] is a {type(backend).__name__}, which is not on Redis. "
            "Use an alias of django-redis, of django-valkey or of Django's Redis cache, or a URL."
        )
    if not where:
        # Said by us, as the packages' own words name neither.
        raise ImproperlyConfigured(
            f"redis_locks: CACHES[{alias!r}]['LOCATION'] is {where!r}. Give the address of the "
            "server, such as 'redis://localhost:6379/1'."
        )
    for location in [where] if isinstance(where, str) else where or ():
        for url in re.split("[;,]", location):
            if "://" in url:
                check_database(url)
    if isinstance(backend, DjangoRedisCache):
        return [backend._cache.get_client(None, write=True)]  # noqa: SLF001 - no public way
    package_client = getattr(backend, by_package[0])
    shards = getattr(package_client, "_serverdict", None)  # ShardClient's: a client for each server
    return list(shards.values()) if shards else [package_client.get_client(write=True)]


def single_server(client: object, origin: str) -> redis.Redis:
    """Return ``client`` if it talks to one server; ``origin`` says where it comes from.

    Raises:
        ImproperlyConfigured: It is no client, or one of several servers.
    """
    pool = getattr(client, "connection_pool", None)
    if not getattr(pool, "is_master", True):
        raise ImproperlyConfigured(
            f"redis_locks: {origin} is for reading from replicas (slave_for). Give what "
            "Sentinel.master_for() returns, or the URL redis+sentinel://host:port/service/db."
        )
    try:
        blocking = client if isinstance(client, redis.Redis) else blocking_twin(client)
    except LockBackendError as error:
        raise ImproperlyConfigured(f"redis_locks: {origin}: {error}") from error
    if blocking is None:
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise ImproperlyConfigured(f"redis_locks: {origin} gives a {kind}. {_ADVICE}")
    return blocking
