"""The deadlocks of the last hour: who waited for whom, for which locks, and at which lines of code.

The server keeps the latest 20 of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from typing import Final, Self

from redis_locks.exceptions import Wait
from redis_locks.values.text import shorten

KEPT: Final = 3600.0
"""Seconds for which a deadlock is shown."""

_MOST_WAITS, _MOST_NAMES, _LONGEST = 10, 10, 300
"""What of a deadlock is kept: so many waits, for so many locks each, and so many letters of a text.
"""


@dataclass(frozen=True, slots=True)
class Circle:
    """A deadlock that was broken: sessions that waited for each other.

    Attributes:
        at: When the wait of one of them was ended, by the server's clock, in seconds since 1970.
        waits: Their waits, the one that was ended first; each waited for what the next one had.
    """

    at: float
    waits: tuple[Wait, ...]

    @property
    def names(self) -> list[str]:
        """The locks, each once, in the order of the waits."""
        return list(dict.fromkeys(chain.from_iterable(wait.names for wait in self.waits)))

    @classmethod
    def parse(cls, at_ms: int, words: str) -> Self | None:
        """Return what was written.

        None if we cannot read it, as a later version may write something else.
        """
        try:
            waits = tuple(
                Wait(tuple(map(str, names)), str(mode), str(who), str(where))
                for names, mode, who, where in json.loads(words)
            )
        except (ValueError, TypeError):
            return None
        return cls(at_ms / 1000, waits) if waits else None


def written(waits: tuple[Wait, ...]) -> str:
    """Return the waits of a deadlock as text, of bounded length."""
    kept = [
        (
            wait.names[:_MOST_NAMES],
            wait.mode,
            shorten(wait.who, _LONGEST),
            shorten(wait.where, _LONGEST),
        )
        for wait in waits[:_MOST_WAITS]
    ]
    return json.dumps(kept, separators=(",", ":"))
