from __future__ import annotations

import time

import pytest

from redis_locks import scripts
from tests.scripts.bench import Bench

WHO = "web-1\t4711\tthread MainThread\tcooldown of a report"
NAMES = [(), ("a", "b")]


def closed(bench: Bench, token: str, at_least: int, names: tuple[str, ...] = ()) -> list[str]:
    return bench.words(scripts.CLOSE, token, f"closer-{token}", at_least, WHO, names=names)


@pytest.mark.parametrize("names", NAMES)
def test_the_locks_stay_closed_from_the_grant_on(bench: Bench, names: tuple[str, ...]) -> None:
    granted, _, began = bench.acquire("a", lease=60_000, names=names)
    assert "1" == granted
    time.sleep(0.05)
    assert ["1"] == closed(bench, "a", 1000, names)
    refused, _, ends, claim = bench.acquire("b", names=names)[:4]
    assert ("0", int(began) + 1000) == (refused, int(ends))
    assert claim
    assert ["1"] == closed(bench, "a", 1000, names)  # as after a lost reply
    assert int(ends) == int(bench.acquire("b", names=names)[2])


@pytest.mark.parametrize("names", NAMES)
def test_a_hold_that_lasted_longer_ends_and_hands_on(bench: Bench, names: tuple[str, ...]) -> None:
    bench.acquire("a", names=names)
    ears = bench.stand("waiter", names=names)
    time.sleep(0.02)
    assert ["1"] == closed(bench, "a", 10, names)
    assert "waiter" == (bench.heard(ears) or [""])[0]
