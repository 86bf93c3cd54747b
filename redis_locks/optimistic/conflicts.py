"""How often transactions on a key met a conflict: a bounded sorted set on the server, for one hour.

A member is a watched key. Its score packs both counts, so that one ZINCRBY counts an attempt and
the set is sorted by conflicts.
"""

from __future__ import annotations

from typing import NamedTuple

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


def counting(
    counters: str, keys: tuple[str, ...], attempts: int, conflicts: int
) -> list[tuple[str | int, ...]]:
    """Return commands that add to the counts of each key."""
    score = conflicts * _CONFLICT + attempts
    return [
        *[("ZINCRBY", counters, score, key) for key in keys],
        ("ZREMRANGEBYRANK", counters, 0, -KEPT_KEYS - 1),
        ("EXPIRE", counters, PERIOD_SECONDS, "NX"),
    ]


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
