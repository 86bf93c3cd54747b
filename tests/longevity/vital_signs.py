"""Samples of processes and their server over a long time, and whether they stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

WARM_UP: Final = 0.2
"""The part of the samples that does not count: caches fill, connections and threads are made."""


@dataclass(frozen=True)
class Sign:
    """One thing that is sampled. Growth below each of these bounds is none.

    Args:
        label: What it is, for people.
        most: By which part of its first level it may grow.
        little: By how much it may grow in any case.
        unit: By what to divide it, for people.
    """

    label: str
    most: float = 0.05
    little: float = 0.0
    unit: float = 1.0


MEGABYTE: Final = 1e6

OF_A_PROCESS: Final = {
    "resident": Sign("memory, MB", little=2 * MEGABYTE, unit=MEGABYTE),
    "blocks": Sign("blocks of Python's memory", little=2000.0),
    "threads": Sign("threads", little=2.0),
    "files": Sign("file descriptors", little=4.0),
}
OF_A_SERVER: Final = {
    "used_memory": Sign("memory, MB", little=MEGABYTE, unit=MEGABYTE),
    "connections": Sign("connections", little=8.0),
    "channels": Sign("channels that are listened to", little=8.0),
    "keys": Sign("keys", little=50.0),
    "scripts": Sign("scripts", most=0.0),
}


@dataclass(frozen=True)
class Trend:
    """How a sign went, from the first third of its samples after the warm-up to the last third.

    `slope` is the median of the slopes between samples that are half of the time apart, times the
    time. `noise` is the median distance of a sample from that line.
    """

    sign: Sign
    first: float
    last: float
    slope: float
    noise: float

    @property
    def is_flat(self) -> bool:
        """Whether the slope is within the noise, or of no account."""
        allowed = max(self.sign.most * self.first, self.sign.little, 2 * self.noise)
        return self.slope <= allowed

    def __str__(self) -> str:
        unit = self.sign.unit
        return (
            f"{self.first / unit:,.4g} -> {self.last / unit:,.4g} "
            f"(slope {self.slope / unit:+,.3g}, noise {self.noise / unit:,.3g})"
        )


def trend(sign: Sign, samples: list[float]) -> Trend:
    """Return how a sign went; needs some samples, taken at equal distances."""
    warm = samples[int(len(samples) * WARM_UP) :]
    count = len(warm)
    third, half = max(1, count // 3), max(1, count // 2)
    steps = [after - before for before, after in zip(warm, warm[half:], strict=False)]
    a_sample = median(steps) / half if steps else 0.0
    middle = median(value - a_sample * place for place, value in enumerate(warm))
    noise = median(abs(value - a_sample * place - middle) for place, value in enumerate(warm))
    return Trend(sign, median(warm[:third]), median(warm[-third:]), a_sample * (count - 1), noise)


class Chart:
    """The samples of all signs, by whose they are and what."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str], list[float]] = {}

    def add(self, whose: str, values: dict[str, float]) -> None:
        """Add one sample of each of these signs."""
        for what, value in values.items():
            self._samples.setdefault((whose, what), []).append(value)

    def trends(self) -> Iterator[tuple[str, Trend]]:
        """Yield whose sign it is, and how it went."""
        for (whose, what), samples in self._samples.items():
            signs = OF_A_SERVER if whose == "server" else OF_A_PROCESS
            yield f"{whose}: {signs[what].label}", trend(signs[what], samples)
