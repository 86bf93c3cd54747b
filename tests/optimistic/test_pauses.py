"""The pauses between attempts: random, so that those who met do not meet again, and bounded."""

from __future__ import annotations

import random
from itertools import count

import pytest
import redis

from redis_locks import TooMuchContention
from tests.optimistic.sides import Adding, Side
from tests.support.optimistic import pause_by


@pytest.mark.parametrize(("takes", "tries", "longest"), [(0.002, 6, 0.008), (10.0, 4, 0.25)])
def test_pauses_differ_and_are_no_longer_than_a_few_attempts_take(
    side: Side,
    client: redis.Redis,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    takes: float,
    tries: int,
    longest: float,
) -> None:
    bounds: list[tuple[float, float]] = []
    pauses: list[float] = []

    def note(least: float, most: float) -> float:
        bounds.append((least, most))
        pauses.append(random.uniform(least, most))
        return pauses[-1]

    pause_by(monkeypatch, note, count(0.0, takes / 2))
    body = Adding(name, 1, lambda _: client.incr(name))
    with pytest.raises(TooMuchContention):
        side.run(body, name, attempts=tries)
    assert tries - 1 == len(pauses) == len(set(pauses))
    assert {0} == {least for least, _ in bounds}
    assert pytest.approx(longest) == max(most for _, most in bounds)
