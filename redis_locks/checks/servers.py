"""What is risky about the server of the locks, as far as the settings tell."""

from __future__ import annotations

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured

from redis_locks.conf.settings import get_settings
from redis_locks.exceptions import LockBackendError

SHARED_WITH_CACHE = "redis_locks.W006"
NO_TIMEOUT = "redis_locks.W007"
REPLICAS_OF_CLUSTER = "redis_locks.E009"
UNHEEDED = "redis_locks.W012"
NOT_IN_LOOPS = "redis_locks.W013"


def check_servers(**_: object) -> list[CheckMessage]:
    """Warnings of the server that CONNECTION names; none if only a call of user code could tell it."""
    # Not above: it imports redis-py, and at Django's start no check runs.
    from redis_locks.connections.resolution import is_known

    try:
        spec = get_settings().connection
        if not is_known(spec):
            return []
        return [
            *_shared_with_caches(spec),
            *_without_timeout(spec),
            *_unheeded(spec),
            *_not_in_loops(spec),
            *_replicas_of_cluster(spec),
        ]
    except ImproperlyConfigured:
        return []  # said by check_settings already


def _shared_with_caches(spec: str) -> list[CheckMessage]:
    from redis_locks.connections.shared_databases import (
        caches_beside,  # not above, as in `check_servers`
    )

    clears = [f"caches[{alias!r}].clear()" for alias in caches_beside(spec)]
    if not clears:
        return []
    return [
        Warning(
            f"{' and '.join(clears)} would remove all locks, as they are in the same database.",
            hint="Give the locks a database of their own, in a URL such as "
            "REDIS_LOCKS['CONNECTION'] = 'redis://localhost:6379/1', or an alias in CACHES for "
            "them alone.",
            id=SHARED_WITH_CACHE,
        )
    ]


def _without_timeout(spec: str) -> list[CheckMessage]:
    # Not above, as in `check_servers`.
    from redis_locks.connections.resolution import resolve
    from redis_locks.drivers.endpoint import DEFAULT_TIMEOUT

    if resolve(spec).kwargs.get("socket_timeout", DEFAULT_TIMEOUT) is not None:
        return []
    return [
        Warning(
            "The client that REDIS_LOCKS['CONNECTION'] names has socket_timeout=None, so it waits "
            "for ever for a server that does not answer; so do locks of redis_locks.compat. "
            f"All other locks use {DEFAULT_TIMEOUT:g} s instead.",
            hint="Give it a socket_timeout in seconds, shorter than REDIS_LOCKS['LEASE'].",
            id=NO_TIMEOUT,
        )
    ]


def _unheeded(spec: str) -> list[CheckMessage]:
    # Not above, as in `check_servers`.
    from redis_locks.connections.resolution import resolve

    return [
        Warning(
            f"The client that REDIS_LOCKS['CONNECTION'] names has {option}, which means nothing to locks: "
            "they open connections of their own, as many as threads wait and few more.",
            hint="Leave it out there, or give the locks a URL or an alias in CACHES for them alone.",
            id=UNHEEDED,
        )
        for option in resolve(spec).unheeded
    ]


def _not_in_loops(spec: str) -> list[CheckMessage]:
    # Not above, as in `check_servers`.
    from redis_locks.connections.resolution import resolve

    try:
        resolve(spec).in_loop()
    except LockBackendError as error:
        return [
            Warning(
                f"Async code cannot take locks over REDIS_LOCKS['CONNECTION'], {error}.",
                hint="Leave the option out, or give async code a connection that redis-py's asyncio can have, "
                "such as using='rediss://...'. If no async code takes locks, silence this check.",
                id=NOT_IN_LOOPS,
            )
        ]
    return []


def _replicas_of_cluster(spec: str) -> list[CheckMessage]:
    # Not above, as in `check_servers`.
    from redis_locks.connections.resolution import resolve
    from redis_locks.drivers.cluster_endpoint import ClusterEndpoint

    if not (get_settings().replicas and isinstance(resolve(spec), ClusterEndpoint)):
        return []
    return [
        Error(
            "REDIS_LOCKS['REPLICAS'] needs a single server with its replicas, but CONNECTION names a "
            "cluster: no lock can be acquired.",
            hint="Leave REPLICAS out, and have resources check fencing tokens.",
            id=REPLICAS_OF_CLUSTER,
        )
    ]
