"""Locks of rows and models, with the words and the meaning of ``select_for_update``."""

from __future__ import annotations

from redis_locks.rows.blocks import lock_model, lock_rows
from redis_locks.rows.locked_rows import LockedRows
from redis_locks.rows.managers import RedisLockManager
from redis_locks.rows.querysets import RedisLockQuerySet

__all__ = ["LockedRows", "RedisLockManager", "RedisLockQuerySet", "lock_model", "lock_rows"]
