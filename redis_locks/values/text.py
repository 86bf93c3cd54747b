"""Names and times as text that fits and cannot mislead its reader."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from math import floor, log10

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_WIDE = frozenset("WF")


def printable(text: str) -> str:
    """Return `text` with escapes for what would break a line or mislead its reader.

    Control characters could steer the terminal; bidirectional marks could make a name
    look like another one.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def encodable(text: str) -> str:
    """Return `text` with escapes for what is not UTF-8.

    Such are bytes of a file's name or of a thread's.
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def width(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Return `text` filled up with spaces to so many columns, on its left if `right`."""
    fill = " " * (columns - width(text))
    return fill + text if right else text + fill


def shorten(text: str, columns: int | None) -> str:
    """Return `text` with an ellipsis for its middle if it takes more columns; None: as it is."""
    if columns is None or width(text) <= columns:
        return text
    end = (columns - 1) // 2
    return f"{_first(text, columns - 1 - end)}…{_first(text[::-1], end)[::-1]}"


def wrapped(text: str, columns: int | None) -> list[str]:
    """Return `text` as lines of so many columns, broken between words; None: as it is.

    A longer word loses its middle.
    """
    if columns is None:
        return [text]
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else shorten(word, columns)
        if width(longer) <= columns:
            lines[-1] = longer
        else:
            lines.append(shorten(word, columns))
    return lines


def _first(text: str, columns: int) -> str:
    used = 0
    for i, character in enumerate(text):
        used += _columns(character)
        if used > columns:
            return text[:i]
    return text


def latency(seconds: float) -> str:
    """Return seconds in at most six characters, in milliseconds where they are few.

    Such as 0.17ms and 12m05s.
    """
    if seconds >= 1:
        return duration(seconds)
    if not seconds:
        return "0"
    milliseconds = seconds * 1000
    # The two or three digits that say something.
    digits = max(0, 1 - floor(log10(milliseconds)))
    return f"{milliseconds:.{min(digits, 2)}f}ms"


def duration(seconds: float) -> str:
    """Return seconds in at most six characters, for up to 99 days: 9.8s, 12m05s, 3h20m, 2d04h."""
    if seconds < _MINUTE - 0.05:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"), (1, "s"))
    for (big, letter), (small, next_letter) in pairwise(units):
        if whole >= big:
            return f"{whole // big}{letter}{whole % big // small:02}{next_letter}"
    return f"{whole}s"
