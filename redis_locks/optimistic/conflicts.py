"""How often transactions on a key met another one: a sorted set on the server, bounded, of one hour.

A member is a watched key; its score packs both counts, so that the order is that of the conflicts
and one ZINCRBY counts an attempt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

KEPT_KEYS = 1000
"""The sorted set keeps this many keys, those with the most conflicts."""

PERIOD_SECONDS = 3600
"""After so many seconds counting starts anew."""

# A score is a double, exact up to 2**53: 67 million attempts, 134 million conflicts in a period.
_CONFLICT = 2**26


class ConflictRate(NamedTuple):
    """What became of the attempts to change a key, in the current period of an hour at most."""

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
    """Return the rates that the members and scores of the sorted set tell."""
    return [
        ConflictRate(
            key.decode(errors="replace") if isinstance(key, bytes) else key,
            int(score) % _CONFLICT,
            int(score) // _CONFLICT,
        )
        for key, score in found
    ]
