"""Durations: a wrong one is refused before anything is sent, naming argument, value and fix."""

from __future__ import annotations

import fractions

import pytest

from redis_locks import Lock
from redis_locks.values.durations import lease_ms, wait_seconds


@pytest.mark.parametrize("value", [0, -1, 0.0, -0.0, 1e-9, 0.0099, 1e12, 366 * 86400])
def test_a_lease_must_be_between_ten_milliseconds_and_a_year(value: float) -> None:
    with pytest.raises(
        ValueError, match=r"^lease must be between 0\.01 seconds and one year, not "
    ):
        Lock("x", lease=value)


def test_a_wait_may_be_none_for_ever_or_zero_for_not_at_all() -> None:
    assert wait_seconds(None) is None
    assert 0 == wait_seconds(0)
    assert 1e-9 == wait_seconds(1e-9)


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(0.01, 10), (0.1, 100), (0.3, 300), (1, 1000), (1.0001, 1001), (0.0123, 13), (2.007, 2007)],
)
def test_leases_are_rounded_up_to_whole_milliseconds(seconds: float, milliseconds: int) -> None:
    assert milliseconds == lease_ms(seconds)


def test_any_real_number_is_a_number() -> None:
    assert 500 == lease_ms(fractions.Fraction(1, 2))
