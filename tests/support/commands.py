"""What `manage.py locks` is made of: its table, its details, its reports."""

from __future__ import annotations

from redis_locks.management.locks import VERBS, show, stats
from redis_locks.management.locks.report import Report
from redis_locks.management.locks.table import drawn
from redis_locks.values.text import latency
