"""Django's system checks of this app."""

from __future__ import annotations

from redis_locks.checks import (
    check_lock_names,
    check_servers,
    check_settings,
    check_task_order,
    check_view_order,
    check_views,
)
from redis_locks.connections.shared_databases import SHARED_WITH_CACHE

__all__ = [
    "SHARED_WITH_CACHE",
    "check_lock_names",
    "check_servers",
    "check_settings",
    "check_task_order",
    "check_view_order",
    "check_views",
]
