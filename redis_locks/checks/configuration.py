"""Whether REDIS_LOCKS can be used at all, and what is risky about its servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured

from redis_locks.conf.settings import Settings, get_settings, problems, servers_of
from redis_locks.connections.resolution import is_known, resolve, verify
from redis_locks.connections.shared_databases import SHARED_WITH_CACHE, caches_beside
from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
from redis_locks.exceptions import LockBackendError

NO_CONNECTION = "redis_locks.E004"
NO_MIDDLEWARE = "redis_locks.W008"
NO_TIMEOUT = "redis_locks.W007"
REPLICAS_OF_CLUSTER = "redis_locks.E009"
UNHEEDED = "redis_locks.W012"
NOT_IN_LOOPS = "redis_locks.W013"
MIDDLEWARE = "redis_locks.middleware.request_deadline"


def check_settings(**_: object) -> list[CheckMessage]:
    """Everything that is wrong with REDIS_LOCKS, each with a hint."""
    configured = getattr(settings, "REDIS_LOCKS", {})
    messages: list[CheckMessage] = [*problems(configured)]
    # However wrong the other entries are.
    ours = servers_of(configured)
    if ours is not None:
        for using in ours.server_names:
            messages += _check_connection(ours, using)
    return [*messages, *_check_middleware(configured)]


def _check_connection(ours: Settings, using: str | None) -> Iterator[CheckMessage]:
    try:
        verify(ours.server(using), ours.servers)
    except ImproperlyConfigured as error:
        hint = (
            f"Set {ours.entry(using)} to a CACHES alias of django-redis or of Django's Redis "
            "cache. A redis://, valkey://, unix://, redis+sentinel:// or redis+cluster:// URL "
            "will do, too. So will the dotted path of a callable that returns a redis.Redis or a "
            "redis.RedisCluster."
        )
        yield Error(str(error), hint=hint, id=NO_CONNECTION)


def _check_middleware(configured: object) -> Iterator[CheckMessage]:
    deadline = configured.get("REQUEST_DEADLINE") if isinstance(configured, Mapping) else None
    if deadline is not None and MIDDLEWARE not in settings.MIDDLEWARE:
        yield Warning(
            "REDIS_LOCKS['REQUEST_DEADLINE'] bounds nothing without its middleware.",
            hint=f"Add {MIDDLEWARE!r} to MIDDLEWARE, before what takes locks.",
            id=NO_MIDDLEWARE,
        )


def check_servers(**_: object) -> list[CheckMessage]:
    """Warnings of each configured server; none of one that only a call of user code could tell."""
    every = (_shared_with_caches, _without_timeout, _unheeded, _not_in_loops, _replicas_of_cluster)
    try:
        ours = get_settings()
        known = [using for using in ours.server_names if is_known(ours.server(using))]
        return [message for using in known for check in every for message in check(using)]
    except ImproperlyConfigured:
        return []  # said by check_settings already


def _shared_with_caches(using: str | None) -> Iterator[CheckMessage]:
    clears = [f"caches[{alias!r}].clear()" for alias in caches_beside(using)]
    if clears:
        yield Warning(
            f"{' and '.join(clears)} would remove all locks, as they are in the same database.",
            hint="Give the locks a database of their own, in a URL such as "
            f"{get_settings().entry(using)} = 'redis://localhost:6379/1', or an alias in CACHES "
            "for them alone.",
            id=SHARED_WITH_CACHE,
        )


def _without_timeout(using: str | None) -> Iterator[CheckMessage]:
    if resolve(using).kwargs.get("socket_timeout", 0) is None:
        yield Warning(
            f"The client that {get_settings().entry(using)} names has socket_timeout=None, so it "
            "waits for ever for a server that does not answer; so do locks of "
            "redis_locks.compat. All other locks use REDIS_LOCKS['REPLY_TIMEOUT'], "
            f"{get_settings().reply_timeout:g} s, instead.",
            hint="Give it a socket_timeout in seconds, shorter than REDIS_LOCKS['LEASE'].",
            id=NO_TIMEOUT,
        )


def _unheeded(using: str | None) -> Iterator[CheckMessage]:
    for option in resolve(using).unheeded:
        yield Warning(
            f"The client that {get_settings().entry(using)} names has {option}, which locks "
            "ignore. They open connections of their own: a handful, however many threads wait.",
            hint="Leave it out there, or give the locks a URL or a CACHES alias for them alone.",
            id=UNHEEDED,
        )


def _not_in_loops(using: str | None) -> Iterator[CheckMessage]:
    try:
        resolve(using).in_loop()
    except LockBackendError as error:
        yield Warning(
            f"Async code cannot take locks over {get_settings().entry(using)}, {error}.",
            hint="Leave the option out, or give async code a connection that redis-py's asyncio "
            "can have, such as using='rediss://...'. If no async code takes locks, silence this "
            "check.",
            id=NOT_IN_LOOPS,
        )


def _replicas_of_cluster(using: str | None) -> Iterator[CheckMessage]:
    if get_settings().replicas and isinstance(resolve(using), ClusterEndpoint):
        yield Error(
            "REDIS_LOCKS['REPLICAS'] needs a single server with its replicas, but "
            f"{get_settings().entry(using)} names a cluster: no lock can be acquired there.",
            hint="Leave REPLICAS out, and have resources check fencing tokens.",
            id=REPLICAS_OF_CLUSTER,
        )
