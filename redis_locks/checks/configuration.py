"""Whether REDIS_LOCKS can be used at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured

from redis_locks.conf.settings import Settings, problems, servers_of
from redis_locks.connections.resolution import verify

NO_CONNECTION = "redis_locks.E004"
NO_MIDDLEWARE = "redis_locks.W008"
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
