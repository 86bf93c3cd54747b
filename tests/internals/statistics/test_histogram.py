"""The buckets for durations, and what is read from them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_locks.values.histogram import LAST, bucket_of, quantile

SECONDS = st.floats(min_value=1e-4, max_value=90_000)


@given(st.lists(SECONDS, min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_is_at_most_a_fifth_off(durations: list[float], share: float) -> None:
    found = quantile(Counter(map(bucket_of, durations)), share)
    ordered = sorted(durations)
    exact = next(d for i, d in enumerate(ordered, 1) if i >= share * len(ordered))
    assert found == pytest.approx(exact, rel=0.2)


def test_no_durations_have_no_quantile() -> None:
    assert quantile({}, 0.5) is None


def test_durations_of_nothing_come_first() -> None:
    assert 0.0 == quantile({10: 1}, 0.5, zeros=1)
    assert 0.0 < (quantile({10: 1}, 0.99, zeros=1) or 0)


@pytest.mark.parametrize(("seconds", "bucket"), [(0, 0), (1e-9, 0), (1e-4, 0), (1e9, LAST)])
def test_the_shortest_and_the_longest_have_buckets(seconds: float, bucket: int) -> None:
    assert bucket == bucket_of(seconds)
