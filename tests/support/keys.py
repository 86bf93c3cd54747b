"""What the server stores of a lock, and under which names."""

from __future__ import annotations

from redis_locks.protocol.callers import new_token
from redis_locks.values.identity import process_of
from redis_locks.values.keys import (
    CompatKeys,
    LockKeys,
    compat_keys,
    grant_channel,
    index_key,
    lock_keys,
    operation_key,
    partition_of,
    set_keys,
)


def keys_of(name: str) -> LockKeys:
    """The keys of one lock with the default settings."""
    return lock_keys("redis_locks", 0, name)
