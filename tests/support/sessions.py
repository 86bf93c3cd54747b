"""Who a thread or task is to the locks: as whom it waits, and what it holds."""

from __future__ import annotations

from redis_locks.protocol.callers import session


def holds_anything() -> bool:
    """Whether this thread holds any lock."""
    return session().held.has_any()


def remembers_nothing() -> bool:
    """Whether nothing at all is left of what this thread held."""
    return not session().held


def waits_as() -> str:
    """The name under which this thread waits and holds."""
    return session().name
