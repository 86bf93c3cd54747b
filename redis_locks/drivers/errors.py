"""Turn what redis-py raises, and what the server refuses, into what the core understands."""

from __future__ import annotations

from redis import exceptions as redis_errors

from redis_locks.drivers.base import LinkBroken, Unreachable
from redis_locks.drivers.resp import ErrorReply
from redis_locks.exceptions import LockBackendError

# A server that is starting, electing a primary or busy answers so for a moment.
_PASSING = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ")


def connection_error(error: BaseException, description: str) -> LinkBroken | LockBackendError:
    """Return what to raise when connecting to the server failed."""
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.NoPermissionError):
        return _no_permission(str(error), description)
    return Unreachable(f"{description} cannot be reached: {error}")


def _no_permission(text: str, description: str) -> LockBackendError:
    return LockBackendError(
        f"{description} refused our credentials: {text}; the user needs the commands "
        "of the lock scripts and the channels PREFIX:*"
    )


def unknown_script(reply: object) -> bool:
    """Return whether the server does not know the script (any more)."""
    return isinstance(reply, ErrorReply) and reply.text.startswith("NOSCRIPT")


def reply_error(reply: ErrorReply, description: str) -> LinkBroken | LockBackendError:
    """Return what to raise for an error reply."""
    text = reply.text
    if text.startswith(_PASSING):
        return LinkBroken(text)
    if "WRONGTYPE" in text:
        return LockBackendError(
            f"a key of another type stands where {description} should keep this lock; "
            f"delete it or choose another REDIS_LOCKS['PREFIX'] ({text})"
        )
    if text.startswith("NOPERM"):
        return _no_permission(text, description)
    if "READONLY" in text:
        return LockBackendError(
            f"{description} is a read-only replica; point CONNECTION at the primary ({text})"
        )
    if text.startswith("OOM") or "OOM " in text:
        return LockBackendError(f"{description} is out of memory and takes no locks ({text})")
    return LockBackendError(f"{description} refused: {text}")
