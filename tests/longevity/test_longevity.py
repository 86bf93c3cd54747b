"""What grows over a long time is told from noise, and in a minute nothing does."""

from __future__ import annotations

import math
import random
import sys

import pytest

from tests.longevity.vital_signs import OF_A_PROCESS, OF_A_SERVER, Chart, Sign, Trend, trend
from tests.longevity.world import Verdict, live

pytestmark = pytest.mark.ci

SAMPLES = 180
MEMORY, THREADS, FILES = (OF_A_PROCESS[what] for what in ("resident", "threads", "files"))


def noisy(seed: int, level: float, spread: float, growth: float) -> list[float]:
    """Return samples that grow by so much after a warm-up, with noise."""
    chance = random.Random(seed)
    return [
        level * min(1.0, 0.5 + place / 30) + chance.gauss(0, spread) + growth * place / SAMPLES
        for place in range(SAMPLES)
    ]


@pytest.mark.parametrize(
    ("sign", "level", "spread", "leak"),
    [
        (MEMORY, 60e6, 0.2e6, 6e6),
        (THREADS, 9, 1, 6),
        (FILES, 20, 2, 10),
        (OF_A_SERVER["keys"], 3_000, 100, 500),
        (OF_A_SERVER["connections"], 100, 4, 25),
    ],
    ids=lambda value: value.label if isinstance(value, Sign) else None,
)
def test_a_leak_is_told_from_noise(sign: Sign, level: float, spread: float, leak: float) -> None:
    for seed in range(20):
        assert trend(sign, noisy(seed, level, spread, 0)).is_flat
        assert not trend(sign, noisy(seed, level, spread, leak)).is_flat


def test_waves_are_no_growth() -> None:
    waves = [60e6 + 4e6 * math.sin(place / 7) for place in range(SAMPLES)]
    assert trend(MEMORY, waves).is_flat


def test_the_verdict_names_what_grew_what_went_wrong_and_what_was_left() -> None:
    chart = Chart()
    for place in range(SAMPLES):
        chart.add("process 3", {"threads": 9 + place / 10, "files": 20})
    trends: dict[str, Trend] = dict(chart.trends())
    told = {"DeadlockDetected in crossing": 7, "LockLost in hot": 2, "sections": 1000}
    first, *others = Verdict(trends, told, ["redis_locks{0}:lock:x"]).failures
    assert first.startswith("process 3: threads is not flat: ")
    assert ["2 times LockLost in hot", "redis_locks{0}:lock:x is in use at the end"] == others


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
def test_nothing_goes_wrong_in_a_minute() -> None:
    """Too short to see what is flat: memory and connections are still coming to their size."""
    verdict = live(60, share=0.5, every=3, say=sys.stderr.write)
    grown = [each for each in verdict.failures if "is not flat" in each]
    assert [] == [each for each in verdict.failures if each not in grown]
    assert verdict.told["sections"] > 500
    assert {"server: scripts"} <= {label for label, each in verdict.trends.items() if each.is_flat}
