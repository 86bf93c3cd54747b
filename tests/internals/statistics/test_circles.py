"""The deadlocks that the server keeps: how many, for how long, and how much of each."""

from __future__ import annotations

from time import monotonic

import pytest
import redis
from django.conf import settings

from redis_locks.exceptions import Wait
from redis_locks.statistics.circles import Circle, written
from redis_locks.statistics.usual import recent
from tests.support.statistics import send


def circle(number: int) -> tuple[Wait, ...]:
    return tuple(
        Wait((name,), "exclusive", f"web-{number} pid 7 thread T (pay)", "/app/bank.py:17")
        for name in (f"a:{number}", f"b:{number}")
    )


def add(*deadlocks: tuple[float, tuple[Wait, ...]]) -> None:
    send({}, (), deadlocks)


@pytest.mark.usefixtures("own_prefix")
def test_the_latest_twenty_are_kept_for_an_hour() -> None:
    now = monotonic()
    add(*((now - 60 + number, circle(number)) for number in range(30)))
    known = recent().circles
    assert [f"a:{number}" for number in range(29, 9, -1)] == [each.names[0] for each in known]
    assert circle(29) == known[0].waits
    assert 28 < known[0].at - known[-1].at + 10 < 30
    since = recent().deadlocked(known[1].at)
    assert {"a:29", "b:29", "a:28", "b:28"} == set(since)
    client = redis.Redis.from_url(settings.CACHES["default"]["LOCATION"])
    (key,) = client.keys(f"{settings.REDIS_LOCKS['PREFIX']}*:stats:circles:")
    assert 3500 < client.ttl(key) <= 3600
    assert 20 == client.llen(key)


@pytest.mark.usefixtures("own_prefix")
def test_one_of_more_than_an_hour_ago_is_not_shown() -> None:
    add((monotonic() - 3700, circle(1)), (monotonic() - 3000, circle(2)))
    assert [["a:2", "b:2"]] == [each.names for each in recent().circles]


def test_what_is_kept_of_one_is_bounded() -> None:
    huge = tuple(Wait(("n" * 512,) * 50, "exclusive", "w" * 9999, "l" * 9999) for _ in range(99))
    assert len(written(huge)) < 70_000
    kept = Circle.parse(1000, written(huge))
    assert kept
    assert (10, 1) == (len(kept.waits), len(kept.names))


@pytest.mark.parametrize("text", ["", "{}", "[]", "[[1]]", "[[1,2,3,4]]", "nonsense"])
def test_what_a_later_version_writes_is_passed_over(text: str) -> None:
    assert Circle.parse(1000, text) is None
