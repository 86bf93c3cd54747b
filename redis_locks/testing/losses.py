"""`lose_lock`: what a program does when it loses a lock in the middle of its work."""

from __future__ import annotations

from redis_locks import inspection
from redis_locks.connections.backends import backend_for


def lose_lock(name: str, *, using: str | None = None) -> None:
    """Take the lock `name` from its present holders, as an operator's force-release does.

    Call it in the middle of the code under test, such as from a mock's ``side_effect``. In this
    process it works at once. `Hold.is_lost` is true, and `Hold.check` and the end of the block
    raise LockLost. An ``async with`` block is cancelled at its next await. A transaction that keeps
    the hold is rolled back. Holders in other processes learn of it within moments. Blocks for three
    round trips on a real server; under `override_locks` ("granted") it needs none.

    Args:
        name: The lock.
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.

    Raises:
        AssertionError: Nobody holds the lock, so no code can notice its loss.
        LockBackendError: Redis could not be asked.
    """
    info = inspection.lock(name, using=using)
    tokens = [holder.token for holder in info.holders] if info else []
    if not inspection.force_release(name, using=using, tokens=tokens):
        raise AssertionError(
            f"lock {name!r} cannot be lost: nobody holds it. Call lose_lock() inside the block "
            "that holds it"
        )
    for token in tokens:
        backend_for(using).revoke(token)  # a hold hears no messages in its first moments
