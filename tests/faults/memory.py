"""Whether the memory of processes stays what it is."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

import psutil

WARM_UP = 0.2
"""The part of the samples that does not count: caches fill, connections and threads are made."""

MOST = 0.05
"""By which part of it the memory of a process may grow and still be called flat."""

LITTLE = 1_000_000
"""So many bytes are no growth: a server that was restarted gets as much for scripts and connections
again.
"""


class Growth(NamedTuple):
    """Medians of the first and the last third of the samples, in bytes."""

    first: float
    last: float

    @property
    def part(self) -> float:
        return self.last / self.first - 1

    @property
    def is_flat(self) -> bool:
        return self.part <= MOST or self.last - self.first <= LITTLE


class Samples:
    """The memory of one process over time."""

    def __init__(self) -> None:
        self._bytes: list[int] = []

    def add(self, amount: int) -> None:
        self._bytes.append(amount)

    def growth(self) -> Growth:
        """Return how it grew; needs some samples."""
        warm = self._bytes[int(len(self._bytes) * WARM_UP) :]
        third = max(1, len(warm) // 3)
        return Growth(median(warm[:third]), median(warm[-third:]))


def resident(pid: int) -> int:
    """Return the resident memory of a process, in bytes."""
    return int(psutil.Process(pid).memory_info().rss)
