"""A histogram of seconds in fixed buckets, so that those of many processes can be added up.

Each bucket reaches to 1.41 times the end of the one before, from a tenth of a millisecond to 30
hours, so that what is read from the middle of a bucket is at most a fifth off.
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
    """Return the seconds that a `share` (0 to 1) of the durations does not exceed.

    Args:
        buckets: How many durations are in each bucket.
        share: 0.5 for the median.
        zeros: How many durations were 0, beside those in buckets.

    Returns:
        The middle of the bucket it falls in; None if there are no durations.
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
