"""The Django app: what Django calls once, when a process starts.

Each module that is imported here delays the start of every process. So checks and metrics
are imported when they are needed.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured


def run_checks(**options: Any) -> list[checks.CheckMessage]:
    """Run all system checks of the app."""
    from redis_locks.checks import (
        check_rows,
        check_servers,
        check_settings,
        check_task_order,
        check_views,
    )

    every = (check_settings, check_servers, check_views, check_rows, check_task_order)
    return [message for check in every for message in check(**options)]


class RedisLocksConfig(AppConfig):
    """Puts the system checks in place, and the signals, the log and the watch of orders."""

    name = "redis_locks"
    verbose_name = "Redis locks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what can only be imported once Django is set up."""
        from redis_locks.conf.settings import get_settings
        from redis_locks.events import dispatch, lock_order
        from redis_locks.statistics import collector

        checks.register(run_checks, "redis_locks")
        dispatch.start()
        collector.start()
        lock_order.start()
        try:
            metrics = get_settings().telemetry
        except ImproperlyConfigured:
            return  # the system checks say why
        if metrics:
            from redis_locks.integrations import telemetry

            telemetry.start()
