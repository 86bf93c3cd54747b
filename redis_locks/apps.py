"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class RedisLocksConfig(AppConfig):
    """Puts the system checks in place, and the signals, the log and the watch of orders."""

    name = "redis_locks"
    verbose_name = "Redis locks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what can only be imported once Django is set up."""
        from redis_locks import orders, telling
        from redis_locks.checks import check_rows, check_servers, check_settings, check_views
        from redis_locks.integrations import telemetry
        from redis_locks.integrations.celery import check_task_order
        from redis_locks.statistics import recording

        for check in (check_settings, check_servers, check_views, check_rows, check_task_order):
            checks.register(check, "redis_locks")
        telling.start()
        telemetry.start()
        recording.start()
        orders.start()
