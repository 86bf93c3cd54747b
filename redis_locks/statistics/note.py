"""What the statistics keep of something that happened to a lock."""

from __future__ import annotations

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
