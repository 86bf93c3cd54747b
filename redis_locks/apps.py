"""The Django app: what Django calls once, when a process starts.

Each module that is imported here delays the start of every process. So checks and metrics
are imported when they are needed.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils.translation import gettext_lazy as _


def run_checks(**options: Any) -> list[checks.CheckMessage]:
    """Run all system checks of the app."""
    from redis_locks.checks import OF_CODE, OF_SETTINGS

    return [message for check in (*OF_SETTINGS, *OF_CODE) for message in check(**options)]


def watch_transactions(connection: BaseDatabaseWrapper, **_signal: object) -> None:
    """Have the transactions of a new connection verify holds before COMMIT.

    At their end they release those they keep.
    """
    from redis_locks.locks.transactions import note_connected

    note_connected(connection)


class RedisLocksConfig(AppConfig):
    """Puts in place what the app does in each process.

    That is the system checks, the signals, the log, the watch of orders, and the commit guard.
    """

    name = "redis_locks"
    verbose_name = _("Redis locks")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what can only be imported once Django is set up."""
        from redis_locks.conf.settings import get_settings
        from redis_locks.events import dispatch, lock_order
        from redis_locks.statistics import collector
        from redis_locks.values import log_text

        checks.register(run_checks, "redis_locks")
        log_text.start()
        dispatch.start()
        collector.start()
        lock_order.start()
        connection_created.connect(watch_transactions, dispatch_uid="redis_locks")
        for connection in connections.all(initialized_only=True):
            watch_transactions(connection)
        try:
            metrics = get_settings().telemetry
        except ImproperlyConfigured:
            return  # the system checks say why
        if metrics:
            from redis_locks.integrations import telemetry

            telemetry.start(metrics)
