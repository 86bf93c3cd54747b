"""What is usual for each lock, and what went wrong, in the last hour: read often, so read cheaply.

The figures come from the quarters of an hour, which are few. Processes send their figures every
5 s, so a reader in this process gets what was read in the last 5 s.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from redis_locks.connections.backends import Backend, backend_for
from redis_locks.drivers.base import run_blocking
from redis_locks.statistics import storage
from redis_locks.statistics.circles import KEPT, Circle
from redis_locks.statistics.collector import INTERVAL, REST
from redis_locks.statistics.history import histogram, totals
from redis_locks.values.histogram import quantile
from redis_locks.values.name_patterns import pattern_of

_MINUTE = 60
_QUARTER, _COUNT = 900, 5
"""An hour, and the quarter that is under way."""

FEWEST: Final = 10
"""How many holds make a usual one. With fewer, the lock's own figures say little."""

_TRIFLE = 0.1
"""Holds shorter than this, in seconds, exceed nothing."""


class Usual(NamedTuple):
    """How long a lock is held as a rule, in seconds; see `LockStatistics` for how exact that is."""

    p50: float
    p99: float

    def is_exceeded_by(self, seconds: float) -> bool:
        """Whether a hold is marked.

        It is at least three medians long, among the longest hundredth, and no trifle.
        """
        # Both figures may be a fifth too high. Of less than a hundred holds, the longest is the
        # 99th percentile.
        return seconds >= max(_TRIFLE, 3 * self.p50, self.p99 / 1.2)


class Recent:
    """The figures of the last hour.

    They are of up to a quarter more, so that nothing of the hour is missing.
    """

    def __init__(
        self, counts: Mapping[str, Mapping[str, int]], circles: Sequence[Circle] = ()
    ) -> None:
        self.circles = circles
        """The latest deadlocks, latest first."""
        self.lost = sum(each.get("l", 0) for each in counts.values())
        self.deadlocks = sum(each.get("d", 0) for each in counts.values())
        self.unavailable = sum(each.get("u", 0) for each in counts.values())
        self._holds: dict[str, dict[int, int]] = {}
        self._alike: dict[str, dict[int, int]] = {}
        for name, each in counts.items():
            holds = histogram(each, "h")
            if not holds or name == REST:
                continue
            self._holds[name] = holds
            alike = self._alike.setdefault(pattern_of(name), defaultdict(int))
            for bucket, count in holds.items():
                alike[bucket] += count
        self._known: dict[str, Usual | None] = {}

    @property
    def names(self) -> Iterable[str]:
        """The locks that were held in the last hour, as far as they have figures of their own."""
        return self._holds

    def deadlocked(self, since: float) -> dict[str, float]:
        """Return the locks of deadlocks that were broken since then.

        And when the latest of each was.
        """
        return {
            name: circle.at
            for circle in reversed(self.circles)
            if circle.at >= since
            for name in circle.names
        }

    def usual(self, name: str) -> Usual | None:
        """Return how long this lock, or those with a name like it, are held as a rule.

        None: not known.
        """
        own = self._holds.get(name)
        if own and sum(own.values()) >= FEWEST:
            return self._of(name, own)
        pattern = pattern_of(name)
        alike = self._alike.get(pattern)
        return self._of(f"{pattern}\0", alike) if alike else None

    def _of(self, key: str, holds: Mapping[int, int]) -> Usual | None:
        if key not in self._known:
            p50, p99 = quantile(holds, 0.5), quantile(holds, 0.99)
            enough = sum(holds.values()) >= FEWEST and p50 is not None and p99 is not None
            self._known[key] = Usual(p50 or 0.0, p99 or 0.0) if enough else None
        return self._known[key]


_read: WeakKeyDictionary[Backend, tuple[float, Recent]] = WeakKeyDictionary()


def recent(*, using: str | None = None) -> Recent:
    """Return the figures of the last hour, at most 5 s old.

    Blocks for three round trips, or not at all.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    backend = backend_for(using)
    known = _read.get(backend)
    if known is None or monotonic() - known[0] > INTERVAL:
        known = monotonic(), run_blocking(_recent(backend))
        _read[backend] = known
    return known[1]


async def _recent(backend: Backend) -> Recent:
    keys = backend.partitions()[0]
    ask = partial(storage.buckets, keys=keys, seconds=_QUARTER, count=_COUNT)
    buckets = await backend.ask(backend.driver, ask)
    known = await backend.ask(backend.driver, partial(storage.deadlocks, keys=keys))
    oldest = buckets[0].at_ms / 1000 - KEPT
    return Recent(totals(buckets), [circle for circle in known if circle.at >= oldest])


def troubles(within: float, *, using: str | None = None) -> dict[str, dict[str, int]]:
    """Return what was counted of each lock in the last `within` seconds, by whole minutes; blocks.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    backend = backend_for(using)
    minutes = math.ceil(within / _MINUTE) + 1  # the one that is under way
    keys = backend.partitions()[0]
    ask = partial(storage.buckets, keys=keys, seconds=_MINUTE, count=minutes)
    return totals(run_blocking(backend.ask(backend.driver, ask)))
