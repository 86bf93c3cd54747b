"""A histogram of seconds with fixed buckets.

So the histograms of many processes can be added up.

Buckets reach from 0.1 ms to 30 hours. Each ends at 1.41 times the end of the bucket before, so a
value read from the middle of a bucket is within 20 %.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import partial
from typing import Final

_SHORTEST = 1e-4
LAST: Final = 60
"""The number of the last bucket, which has no end."""

_ENDS = [_SHORTEST * 2.0 ** (bucket / 2) for bucket in range(LAST)]

bucket_of = partial(bisect_left, _ENDS)
"""Returns the number of the bucket of a duration in seconds, 0 to `LAST`."""


def quantile(buckets: Mapping[int, int], share: float, zeros: int = 0) -> float | None:
    """Return the quantile of the durations for a `share` (0 to 1), in seconds.

    Args:
        buckets: How many durations are in each bucket.
        share: 0.5 for the median.
        zeros: How many durations were 0, beside those in buckets.

    Returns:
        The middle of the bucket that it falls in; None if there are no durations.
    """
    wanted = share * (zeros + sum(buckets.values()))
    if not wanted:
        return None
    reached = zeros
    if reached >= wanted:
        return 0.0
    for bucket in sorted(buckets):
        reached += buckets[bucket]
        if reached >= wanted:
            break
    return _SHORTEST * float(2 ** ((bucket - 0.5) / 2))
