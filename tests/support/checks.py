"""Django's system checks of this app."""

from __future__ import annotations

from redis_locks.checks.configuration import check_settings
from redis_locks.checks.servers import check_servers
from redis_locks.checks.task_order import check_task_order
from redis_locks.checks.view_checks import check_views
from redis_locks.checks.view_names import check_lock_names
from redis_locks.checks.view_order import check_view_order
from redis_locks.connections.shared_databases import SHARED_WITH_CACHE
