"""Django's system checks of this app."""

from __future__ import annotations

from redis_locks.checks.configuration import check_servers, check_settings
from redis_locks.checks.task_order import check_task_order
from redis_locks.checks.view_checks import check_views
from redis_locks.checks.view_locks import check_lock_names, check_view_order
from redis_locks.connections.shared_databases import SHARED_WITH_CACHE
