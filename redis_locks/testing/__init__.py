"""Help for tests.

Locks without a server, assertions about locks, and a real server of their own.
"""

from __future__ import annotations

from redis_locks.testing.assertions import (
    assert_locked,
    assert_not_held_across_commit,
    assert_released,
)
from redis_locks.testing.holders import held
from redis_locks.testing.losses import lose_lock
from redis_locks.testing.overrides import override_locks

__all__ = [
    "assert_locked",
    "assert_not_held_across_commit",
    "assert_released",
    "held",
    "lose_lock",
    "override_locks",
]
