"""What the statistics keep of something that happened to a lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Note(NamedTuple):
    """Something that happened to a lock, for its page. Times are on ``time.monotonic()``."""

    at: float
    kind: str
    who: object
    """Shown as text, which is made when the note is sent."""
    seconds: float = 0.0
    """The length of the wait or the hold that ended with it."""
    fencing_token: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a lock.

    Attributes:
        at: The time by the server's clock, in seconds since 1970.
        kind: "acquired", "contended", "timed_out", "lost", "deadlock", "force_released" or
            "cancelled".
        who: The holder or waiter, or the operator who ended it, as text for people.
        seconds: The length of the wait or, if the hold was lost, of the hold.
        fencing_token: The hold's; 0 if there is none.
        detail: The holder that was in the way, or why the hold was lost; often empty.
    """

    at: float
    kind: str
    who: str
    seconds: float
    fencing_token: int
    detail: str
