"""Validate durations: what the caller gives in seconds, what Redis gets in milliseconds."""

from __future__ import annotations

import math
from numbers import Real

MIN_LEASE = 0.01
"""Shortest lease, in seconds: below it, a round trip outlasts the lease."""

MAX_SECONDS = 365 * 24 * 3600.0
"""Longest lease or wait, in seconds: one year."""


def seconds(value: object, argument: str) -> float:
    """Return `value` as a finite number of seconds.

    Raises:
        TypeError: It is not a number (a bool, a string and None are not).
        ValueError: It is NaN, infinite or too large for a float.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        msg = (
            f"{argument} must be a number of seconds such as 10 or 0.5, "
            f"not {value!r} ({type(value).__name__})"
        )
        raise TypeError(msg)
    try:
        number = float(value)
    except OverflowError:  # a very large integer
        number = math.inf
    if not math.isfinite(number):
        msg = f"{argument} must be a finite number of seconds, not {value!r}"
        raise ValueError(msg)
    return number


def span_seconds(value: object, argument: str) -> float:
    """Return a time that does not end at once.

    Raises TypeError and ValueError as `lease_ms` does.
    """
    number = seconds(value, argument=argument)
    if not MIN_LEASE <= number <= MAX_SECONDS:
        msg = f"{argument} must be between {MIN_LEASE} seconds and one year, not {value!r}"
        raise ValueError(msg)
    return number


def lease_ms(value: object, argument: str = "lease") -> int:
    """Return a lease given in seconds as whole milliseconds, rounded up.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not between 0.01 seconds and one year.
    """
    return math.ceil(round(span_seconds(value, argument=argument) * 1000, 6))


def wait_seconds(value: object, argument: str = "wait") -> float | None:
    """Return a wait in seconds; 0 means do not wait, None means wait for ever.

    Raises:
        TypeError: It is neither a number nor None.
        ValueError: It is negative, NaN, infinite or above one year.
    """
    if value is None:
        return None
    number = seconds(value, argument=argument)
    if not 0 <= number <= MAX_SECONDS:
        msg = (
            f"{argument} must be 0 (do not wait), a positive number of seconds up to "
            f"one year, or None (wait for ever), not {value!r}"
        )
        raise ValueError(msg)
    return number
