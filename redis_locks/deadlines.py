"""`lock_timeout`: an upper bound for every wait in a block, as the database's setting of that name."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType

from redis_locks.durations import wait_seconds

# One entry for each open block: immutable, so that every thread and task sees its own blocks only.
_bounds: ContextVar[tuple[float | None, ...]] = ContextVar("redis_locks.lock_timeout", default=())


class lock_timeout:  # noqa: N801 - used as a block, so it reads like a function
    """No wait for a lock in this ``with`` block lasts longer than so many seconds.

    Each wait is bounded by itself. Of a lock's own wait and of nested blocks the smallest counts,
    so a caller's bound holds whatever is called. It reaches the tasks and the sync_to_async calls
    that are started inside the block, but no other threads.

    Args:
        seconds: The longest wait. 0: do not wait. None: no bound of this block's own.

    Raises:
        TypeError: `seconds` is neither a number nor None.
        ValueError: It is negative, NaN, infinite or above one year.
    """

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float | None) -> None:
        self._seconds = wait_seconds(seconds, argument="seconds")

    def __enter__(self) -> None:
        _bounds.set((*_bounds.get(), bounded(self._seconds)))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _bounds.set(_bounds.get()[:-1])


def bounded(wait: float | None) -> float | None:
    """Return `wait`, or the bound of the blocks around the caller if that is smaller."""
    bounds = _bounds.get()
    bound = bounds[-1] if bounds else None
    if bound is None:
        return wait
    return bound if wait is None else min(wait, bound)
