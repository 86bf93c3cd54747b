"""Upper bounds for the waits in a block: `lock_timeout` for each, `lock_deadline` for all."""

from __future__ import annotations

from math import inf
from time import monotonic

from redis_locks.protocol.callers import session
from redis_locks.protocol.retry import Bound, bounds, open_bounds
from redis_locks.values.durations import wait_seconds


class _Block:
    """A ``with`` block that bounds waits. May be entered again, and by threads at the same time."""

    __slots__ = ("_entered", "_seconds")

    def __init__(self, seconds: float | None) -> None:
        given = wait_seconds(seconds, argument="seconds")
        self._seconds = inf if given is None else given
        self._entered: list[Bound] = []

    def _own(self) -> Bound:
        raise NotImplementedError

    def __enter__(self) -> None:
        own = self._own()
        self._entered.append(own)
        bounds.set((*open_bounds(), own))

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        # A generator that is closed elsewhere leaves its blocks in another context, or in a copy.
        around = open_bounds()
        here = [bound for bound in around if bound.block is self]
        left = (here or self._entered)[-1]
        self._entered.remove(left)
        left.ended = left.entered_by != session().name
        bounds.set(tuple([bound for bound in around if bound is not left]))


class lock_timeout(_Block):  # noqa: N801 - used as a block, so it reads like a function
    """No wait for a lock in this ``with`` block lasts longer than so many seconds.

    Each wait is bounded by itself, as by the database's setting of that name. Of a lock's own wait
    and of nested blocks the smallest counts,
    so a caller's bound holds whatever is called. It reaches the tasks and the sync_to_async calls
    that are started inside the block, but no other threads. Around a `yield`, it also bounds the
    code that runs while the generator stands there: write it around the loop over the generator.

    Args:
        seconds: The longest wait. 0: do not wait. None: no bound of this block's own.

    Raises:
        TypeError: `seconds` is neither a number nor None.
        ValueError: It is negative, NaN, infinite or above one year.
    """

    __slots__ = ()

    def _own(self) -> Bound:
        return Bound(self, session().name, longest=self._seconds)


class lock_deadline(_Block):  # noqa: N801 - as above
    """All waits for locks in this ``with`` block end so many seconds after it is entered.

    Everything that the block does counts. After that, a lock is acquired only if it is free, as
    with ``wait=0``. Nested blocks, `lock_timeout` and a lock's own wait can make it shorter, but
    not longer. It reaches as far as `lock_timeout`, ends no wait of others, and takes no lock away.

    Args:
        seconds: Until when to wait, from entering the block. 0: do not wait. None: no deadline of
            this block's own.

    Raises:
        TypeError: `seconds` is neither a number nor None.
        ValueError: It is negative, NaN, infinite or above one year.
    """

    __slots__ = ()

    def _own(self) -> Bound:
        return Bound(self, session().name, until=monotonic() + self._seconds)


def bounded(wait: float | None) -> float | None:
    """Return `wait`, or what the blocks around the caller leave of it; None is for ever."""
    longest = until = inf
    for bound in open_bounds():
        longest = min(longest, bound.longest)
        until = min(until, bound.until)
    if until != inf:
        # To the millisecond, as Redis counts it and people read it.
        longest = min(longest, max(0.0, round(until - monotonic(), 3)))
    if longest == inf:
        return wait
    return longest if wait is None else min(wait, longest)
