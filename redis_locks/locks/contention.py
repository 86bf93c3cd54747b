"""The error that says which holder is in the way."""

from __future__ import annotations

from datetime import UTC, datetime

from redis_locks.exceptions import LockNotAvailable, LockTimeout, QueueFull
from redis_locks.protocol.store import Refused
from redis_locks.values.identity import describe_holder, is_cooldown


def not_available(
    name: str, refused: Refused, wait: float | None, own: str = ""
) -> LockNotAvailable:
    """Return the error for a lock that another holder still had after `wait` seconds.

    `own`: what to say if that is the caller; "" if it is not.
    """
    holder = describe_holder(refused.claim)
    left = max(0.0, (refused.ends_ms - refused.at_ms) / 1000) if refused.ends_ms else None
    if left is not None and is_cooldown(refused.claim):
        until = datetime.fromtimestamp(refused.ends_ms / 1000, UTC)
        msg = (
            f"Lock {name!r} stays closed for {left:.1f} s, until {until:%Y-%m-%d %H:%M:%S} UTC, as "
            "its at_least says"
        )
        kind = LockNotAvailable if wait == 0 else LockTimeout
        return kind(msg if wait == 0 else f"{msg}; the wait was {wait:g} s", name, holder, left)
    lease = f"; its lease ends in {left:.1f} s unless renewed" if left is not None else ""
    lease += f"; {own}" if own else ""
    if refused.full_at:
        msg = f"Lock {name!r} is held, and max_waiting={refused.full_at} wait for it already{lease}"
        return QueueFull(msg, name, holder, left)
    if wait == 0:
        return LockNotAvailable(f"Lock {name!r} is held{lease}", name, holder, left)
    msg = f"Lock {name!r} did not become free within {wait:g} s; it is held{lease}"
    return LockTimeout(msg, name, holder, left)
