"""SQLite's transactions must begin with the lock of the database, so that rows can be read again.

A transaction that begins without it (``DEFERRED``, Django's default) keeps its first reading while
it waits for a row. So the holder of the row cannot COMMIT or, in WAL mode, the transaction never
sees what the holder wrote.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from redis_locks.locks.transactions import is_of_testcase

FIX = 'add "transaction_mode": "IMMEDIATE" to the "OPTIONS" of DATABASES[{alias!r}]'


def begins_without_lock(connection: BaseDatabaseWrapper) -> bool:
    """Whether the database is SQLite and its transactions begin without the lock.

    Does not connect.
    """
    mode = connection.settings_dict["OPTIONS"].get("transaction_mode") or ""
    return connection.vendor == "sqlite" and mode.upper() not in ("IMMEDIATE", "EXCLUSIVE")


def require_lock_at_begin(alias: str) -> None:
    """Raise ImproperlyConfigured inside a transaction that began without the lock.

    A test case's transaction is allowed: nobody else uses its database, so it blocks nobody.
    """
    connection = connections[alias]
    if not (connection.in_atomic_block and begins_without_lock(connection)):
        return
    blocks: list[Any] = connection.atomic_blocks
    if any(map(is_of_testcase, blocks)):
        return
    raise ImproperlyConfigured(
        f"rows cannot be locked inside atomic() on the SQLite database {alias!r}: its transactions "
        f"are DEFERRED and would keep what they read before the wait; {FIX.format(alias=alias)}, "
        "or lock the rows outside atomic()"
    )
