"""Caches that share a database with the locks.

Their ``clear()`` is FLUSHDB, which removes the locks.
"""

from __future__ import annotations

from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.exceptions import ImproperlyConfigured

from redis_locks.conf.settings import get_settings
from redis_locks.connections.cache_clients import clients_of_cache
from redis_locks.connections.resolution import resolve
from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
from redis_locks.drivers.endpoint import Endpoint

SHARED_WITH_CACHE = "redis_locks.W006"
"""The system check that warns of such a cache. A project that accepts the risk silences it."""


def caches_beside(using: str | None) -> list[str]:
    """Return the aliases in CACHES whose ``clear()`` would remove the locks.

    The locks are those on the server ``using``.

    Connects to nothing, but calls the callable if that is a dotted path. An alias that exists for
    the locks, that is the server's own unless it is "default", does not count.

    Raises:
        ImproperlyConfigured: ``using`` cannot be resolved.
    """
    database = _database(resolve(using))
    spec = get_settings().server(using)
    return [
        alias
        for alias in caches.settings
        if (alias != spec or alias == DEFAULT_CACHE_ALIAS) and database in _cleared_by(alias)
    ]


def caches_elsewhere() -> dict[str, str]:
    """Return the aliases of caches on Redis that are in another database than the locks.

    The locks are those of the default server.

    Each comes with its database. Connects to nothing, as `caches_beside`.

    Raises:
        ImproperlyConfigured: The default server cannot be resolved.
    """
    database = _database(resolve(None))
    cleared = {alias: sorted(_cleared_by(alias) - {database}) for alias in caches.settings}
    return {alias: databases[0] for alias, databases in cleared.items() if databases}


def _cleared_by(alias: str) -> set[str]:
    try:
        clients = clients_of_cache(alias)
    except ImproperlyConfigured:  # in memory; or it is wrong, which its users are told
        return set()
    return {_database(Endpoint.from_client(client)) for client in clients}


def _database(endpoint: Endpoint | ClusterEndpoint) -> str:
    # The two usual ways to write it; only a name server knows which other hosts are the same.
    return endpoint.description.replace("://localhost:", "://127.0.0.1:")
