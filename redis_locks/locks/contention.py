"""The error that says which holder is in the way."""

from __future__ import annotations

from redis_locks.exceptions import LockNotAvailable, LockTimeout
from redis_locks.protocol.store import Refused
from redis_locks.values.identity import describe_holder


def not_available(
    name: str, refused: Refused, wait: float | None, own: str = ""
) -> LockNotAvailable:
    """Return the error for a lock that another holder still had after `wait` seconds; `own`: if that is the caller."""
    holder = describe_holder(refused.claim)
    left = max(0.0, (refused.ends_ms - refused.at_ms) / 1000) if refused.ends_ms else None
    lease = f"; its lease ends in {left:.1f} s unless renewed" if left is not None else ""
    lease += f"; {own}" if own else ""
    if wait == 0:
        return LockNotAvailable(f"Lock {name!r} is held{lease}", name, holder, left)
    msg = f"Lock {name!r} did not become free within {wait:g} s; it is held{lease}"
    return LockTimeout(msg, name, holder, left)
