"""Who waits, as `inspection` shows it: the locks of a cluster are on several nodes."""

from __future__ import annotations

from redis_locks import inspection
from tests.support.world import until


def until_waiters(name: str, count: int) -> None:
    def waiting() -> int:
        found = inspection.lock(name)
        return found.waiting if found else 0

    until(lambda: waiting() == count)
