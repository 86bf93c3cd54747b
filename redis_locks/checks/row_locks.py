"""Databases whose transactions cannot lock rows."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name
from django.db import connections, router

DEFERRED = "redis_locks.W011"


def check_rows(**_: object) -> list[CheckMessage]:
    """A warning of each SQLite database on which `select_for_lock` would raise.

    Silent unless a model there has a manager with `select_for_lock`.
    """
    from redis_locks.rows.sqlite import FIX, begins_without_lock  # as in `check_servers`

    return [
        Warning(
            f"{label}.select_for_lock() raises ImproperlyConfigured: transactions on the "
            f"SQLite database {alias!r} are DEFERRED, and keep what they read before a wait.",
            hint=f"In your settings, {FIX.format(alias=alias)}.",
            id=DEFERRED,
        )
        for alias, label in dict(_lockable()).items()
        if begins_without_lock(connections[alias])
    ]


def _lockable() -> Iterator[tuple[str, str]]:
    """The databases that have rows to be locked, and one of the managers of them."""
    from redis_locks.rows import RedisLockQuerySet  # as above

    for model in apps.get_models():
        for manager in model._meta.managers:
            queryset = getattr(manager, "_queryset_class", None)
            if isinstance(queryset, type) and issubclass(queryset, RedisLockQuerySet):
                yield router.db_for_write(model), f"{model._meta.label}.{manager.name}"
