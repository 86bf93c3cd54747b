"""Where a lock's server is: from an alias, a URL or a dotted path to an Endpoint."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple, cast

import redis
import redis.asyncio as aioredis
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string
from redis.exceptions import RedisClusterException

from redis_locks.conf.settings import get_settings
from redis_locks.connections.cache_clients import clients_of_cache, single_server
from redis_locks.connections.client_twins import is_other_cluster
from redis_locks.drivers import cluster_endpoint, sentinel_url
from redis_locks.drivers.addresses import check_database
from redis_locks.drivers.cluster_endpoint import ClusterEndpoint
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.exceptions import LockBackendError

SCHEMES = ("redis", "rediss", "unix", *sentinel_url.SCHEMES, *cluster_endpoint.SCHEMES)
VALKEY_SCHEMES = {
    scheme.replace("rediss", "valkeys").replace("redis", "valkey"): scheme
    for scheme in SCHEMES
    if scheme != "unix"
}
"""Valkey's own names, each with Redis's name for the same."""

Client = redis.Redis | redis.RedisCluster


class _Resolved(NamedTuple):
    client: Client | None
    """None for a cluster of which we have no client that blocks; see `client_of`."""
    endpoint: Endpoint | ClusterEndpoint


_found: dict[str, _Resolved] = {}
# Re-entrant: the callable behind a dotted path may itself resolve a connection.
_resolving = threading.RLock()


def _after_fork() -> None:
    global _resolving  # noqa: PLW0603 - another thread of the parent may have held it
    _resolving = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def resolve(using: str | None = None) -> Endpoint | ClusterEndpoint:
    """The server or cluster that ``using`` names; the default one when it is None.

    Does not connect. The answer is kept, so that a callable is called once per process.

    Args:
        using: A name in REDIS_LOCKS["SERVERS"], a CACHES alias, a URL, or a dotted path. The alias
            is one of django-redis, django-valkey or Django's own Redis cache. The scheme is redis,
            rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster, or the
            same with valkey for redis. The path names a callable that returns a ``redis.Redis`` or
            a ``RedisCluster``, blocking or asyncio, or valkey-py's classes of the same kind.

    Raises:
        ImproperlyConfigured: ``using`` names nothing that can hold locks.
        LockBackendError: A callable could not reach its cluster.
    """
    return _find(_spec(using)).endpoint


def client_of(using: str | None = None) -> Client:
    """The client that ``using`` names, with the options its user gave it; see `resolve`.

    Connects when it is of a cluster. Raises redis-py's errors, too.
    """
    spec = _spec(using)
    resolved = _find(spec)
    if resolved.client is None:
        with _resolving:
            resolved = _find(spec)
            if resolved.client is None and isinstance(resolved.endpoint, ClusterEndpoint):
                resolved = _found[spec] = resolved._replace(client=resolved.endpoint.client())
    return cast("Client", resolved.client)


def _spec(using: str | None) -> str:
    return get_settings().server(using)


def _find(spec: str) -> _Resolved:
    resolved = _found.get(spec)
    if resolved is None:
        with _resolving:
            resolved = _found.get(spec)
            if resolved is None:
                settings = get_settings()
                resolved = _build(spec, settings.servers)
                endpoint = resolved.endpoint.with_reply_timeout(settings.reply_timeout)
                resolved = _found[spec] = resolved._replace(endpoint=endpoint)
    return resolved


def verify(spec: str, servers: Collection[str]) -> None:
    """Raise ImproperlyConfigured if ``spec`` cannot be resolved; calls no user code.

    `servers` are the names in SERVERS.

    A dotted path is imported but not called, because the callable may well connect.
    """
    if is_dotted_path(spec):
        _load_callable(spec)
    else:
        _build(spec, servers)


def is_dotted_path(spec: str) -> bool:
    """Whether ``spec`` is the path of a callable, which only a process that uses locks calls."""
    is_address = "://" in spec or "@" in spec
    return not is_address and spec not in caches.settings and "." in spec


def is_known(spec: str) -> bool:
    """Whether what ``spec`` names can be told without a call of user code, which may connect.

    So it is for a callable of redis-py itself, with arguments perhaps (``functools.partial``), and
    for one that this process has called already.

    Raises:
        ImproperlyConfigured: ``spec`` is the path of nothing that could be called.
    """
    return not is_dotted_path(spec) or spec in _found or _connects_to_nothing(_load_callable(spec))


def _connects_to_nothing(factory: Callable[[], object]) -> bool:
    function = factory.func if isinstance(factory, partial) else factory
    owner = getattr(function, "__self__", function)
    if isinstance(owner, type) and issubclass(owner, (redis.RedisCluster, aioredis.RedisCluster)):
        return False
    modules = (getattr(each, "__module__", None) or "" for each in (function, owner))
    return all(module.partition(".")[0] == redis.__name__ for module in modules)


def _build(spec: str, servers: Collection[str]) -> _Resolved:
    if "://" in spec:
        return _from_url(spec)
    if spec in caches.settings:
        return _found_server(_from_alias(spec))
    if is_dotted_path(spec):
        return _from_callable(spec)
    named = (
        f" and no server in SERVERS (there are: {', '.join(sorted(servers))})" if servers else ""
    )
    _, at, server = spec.rpartition("@")
    shown = f"***@{server}" if at else spec  # of a URL without its slashes: it may have a password
    raise ImproperlyConfigured(
        f"redis_locks: there is no cache {shown!r} in CACHES (there are: "
        f"{', '.join(sorted(caches.settings))}){named}. Add it, or give a URL (redis://, "
        "valkey://, unix://, redis+sentinel://, redis+cluster://) or the dotted path of a callable."
    )


def _found_server(client: redis.Redis) -> _Resolved:
    return _Resolved(client, Endpoint.from_client(client))


def _from_url(url: str) -> _Resolved:
    named, _, rest = url.partition("://")
    scheme = VALKEY_SCHEMES.get(named, named)
    url = f"{scheme}://{rest}"
    if scheme not in SCHEMES:
        raise ImproperlyConfigured(
            f"redis_locks: {_without_password(url)!r} has the scheme {scheme!r}; use "
            f"{', '.join(SCHEMES[:-1])} or {SCHEMES[-1]}, or the same with valkey for redis."
        )
    form = _FORMS.get(scheme)
    try:
        check_database(url)
        if scheme in cluster_endpoint.SCHEMES:
            return _Resolved(None, ClusterEndpoint.from_url(url))
        through_sentinel = scheme in sentinel_url.SCHEMES
        from_url = sentinel_url.client_of_url if through_sentinel else redis.Redis.from_url
        client = from_url(url)
        # Not connected, but it refuses unknown options.
        Endpoint.from_client(client).blocking_connection()
    except (TypeError, ValueError, redis.RedisError):
        # Without the cause: the parser quotes pieces of the URL, at worst the password.
        msg = (
            f"redis_locks: {_without_password(url)!r} is not a usable URL. Check host, "
            "port, database and options, and quote special characters in the password."
        )
        if form:
            msg += f" It looks like {form}."
        raise ImproperlyConfigured(msg) from None
    return _found_server(client)


_FORMS = {
    "unix": "unix:///path/redis.sock?db=1",
    **dict.fromkeys(sentinel_url.SCHEMES, sentinel_url.FORM),
    **dict.fromkeys(cluster_endpoint.SCHEMES, cluster_endpoint.FORM),
}


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    credentials, at, server = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{'***@' if credentials or at else ''}{server}"


def _from_alias(alias: str) -> redis.Redis:
    clients = clients_of_cache(alias)
    if len(clients) > 1:
        raise ImproperlyConfigured(
            f"redis_locks: CACHES[{alias!r}] spreads its keys over several servers "
            "(ShardClient), so no server sees all of a lock. Use an alias with one primary."
        )
    return clients[0]


def _from_callable(path: str) -> _Resolved:
    factory = _load_callable(path)
    try:
        client = factory()
    except (RedisClusterException, redis.ConnectionError, redis.TimeoutError) as error:
        # A cluster's client connects when it is made, and the cluster may come back.
        raise LockBackendError(f"{path}() raised {type(error).__name__}: {error}") from error
    except Exception as error:
        msg = f"redis_locks: {path}() raised {type(error).__name__}: {error}"
        raise ImproperlyConfigured(msg) from error
    if isinstance(client, redis.RedisCluster):
        return _Resolved(client, ClusterEndpoint.from_client(client))
    if is_other_cluster(client):
        return _Resolved(None, ClusterEndpoint.from_client(client))
    return _found_server(single_server(client, f"{path}()"))


def _load_callable(path: str) -> Callable[[], object]:
    try:
        imported = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"redis_locks: {path!r} is neither a cache in CACHES nor a URL, and cannot be "
            f"imported: {error}"
        ) from error
    if not callable(imported):
        raise ImproperlyConfigured(
            f"redis_locks: {path} is a {type(imported).__name__}; it must be a callable without "
            "arguments that returns a redis.Redis, a redis.RedisCluster or valkey-py's twin of one."
        )
    return cast("Callable[[], object]", imported)


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"CACHES", "REDIS_LOCKS"}:
        with _resolving:
            _found.clear()


setting_changed.connect(_forget, dispatch_uid="redis_locks.connections.resolution")
