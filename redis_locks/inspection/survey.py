"""A summary of every lock of a server: cheap enough to be read every few seconds, with ten thousand locks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from redis_locks.connections.backends import Backend, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.inspection import replies
from redis_locks.inspection.queries import in_parts
from redis_locks.inspection.replies import Summary

_PART = 25
"""How many locks one script looks at, so that none keeps the server busy for more than some milliseconds."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Every lock that somebody holds or waits for, by name; `at` is the server's time in seconds since 1970."""

    at: float
    locks: tuple[Summary, ...]

    @property
    def held(self) -> int:
        """How many locks somebody holds."""
        return sum(lock.holding > 0 for lock in self.locks)

    @property
    def waiting(self) -> int:
        """How many waiters there are; one that waits for several locks counts for each."""
        return sum(lock.waiting for lock in self.locks)

    @property
    def oldest(self) -> Summary | None:
        """The lock with the oldest wait; None if nobody waits."""
        return max(
            (lock for lock in self.locks if lock.waiting),
            key=lambda lock: lock.oldest_wait,
            default=None,
        )


def survey(*, using: str | None = None) -> Survey:
    """Read a summary of every lock; blocks for a round trip per 25 locks.

    Args:
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    return blocking_answer(using, _survey)


async def _survey(backend: Backend, driver: Driver) -> Survey:
    found: dict[str, Summary] = {}
    at_ms = 0
    for keys in backend.partitions():

        async def part(ends_ms: int, skip: int, keys: tuple[bytes, ...] = keys) -> tuple[int, int]:
            nonlocal at_ms
            ask = partial(replies.survey_part, keys=keys, ends_ms=ends_ms, skip=skip, most=_PART)
            at_ms, looked_at, last, summaries = await backend.ask(driver, ask)
            found.update(summaries)
            return looked_at, last

        await in_parts(part, _PART)
    return Survey(at_ms / 1000, tuple(found[name] for name in sorted(found)))
