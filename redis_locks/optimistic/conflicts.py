"""How often transactions on a key met a conflict: a bounded sorted set on the server, for one hour.

A member is a watched key. Its score packs both counts, so that one ZINCRBY counts an attempt and the
set is sorted by conflicts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

KEPT_KEYS = 1000
"""The sorted set keeps this many keys, those with the most conflicts."""

PERIOD_SECONDS = 3600
"""Seconds after which counting starts anew."""

# A score is a double, exact up to 2**53: 67 million attempts, 134 million conflicts in a period.
_CONFLICT = 2**26


class ConflictRate(NamedTuple):
    """The attempts to change a key and their conflicts, in the current hour."""

    key: str
    attempts: int
    conflicts: int

    @property
    def rate(self) -> float:
        """The share of attempts that failed because somebody else had changed something, 0 to 1."""
        return self.conflicts / self.attempts


def count(pipe: Any, counters: str, keys: tuple[str, ...], attempts: int, conflicts: int) -> None:
    """Queue commands that add to the counts of each key."""
    for key in keys:
        pipe.zincrby(counters, conflicts * _CONFLICT + attempts, key)
    pipe.zremrangebyrank(counters, 0, -KEPT_KEYS - 1)
    pipe.expire(counters, PERIOD_SECONDS, nx=True)


def rates(found: list[tuple[bytes | str, float]]) -> list[ConflictRate]:
    """Return the rates that are in the members and scores of the sorted set."""
    return [
        ConflictRate(
            key.decode(errors="replace") if isinstance(key, bytes) else key,
            int(score) % _CONFLICT,
            int(score) // _CONFLICT,
        )
        for key, score in found
    ]
