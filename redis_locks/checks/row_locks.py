"""System check of databases whose transactions cannot lock rows."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's name
from django.db import connections, router

from redis_locks.rows import RedisLockQuerySet
from redis_locks.rows.sqlite import FIX, begins_without_lock

DEFERRED = "redis_locks.W011"


def check_rows(**_: object) -> list[CheckMessage]:
    """Return a warning for each SQLite database on which `select_for_lock` would raise.

    Only databases count on which a model has a manager with `select_for_lock`.
    """
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
    """Yield the databases whose rows can be locked, each with one of the managers."""
    for model in apps.get_models():
        for manager in model._meta.managers:
            queryset = getattr(manager, "_queryset_class", None)
            if isinstance(queryset, type) and issubclass(queryset, RedisLockQuerySet):
                yield router.db_for_write(model), f"{model._meta.label}.{manager.name}"
