"""Locks as text: columns for a terminal, tabs for programs, and all details of one lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from redis_locks.inspection import LockInfo

HEADER = ("name", "mode", "holder", "held for", "lease left", "waiters", "fencing token")
_SHORT_HEADER = ("NAME", "MODE", "HOLDER", "HELD", "LEFT", "WAITERS", "FENCING TOKEN")
_NAME, _HOLDER = HEADER.index("name"), HEADER.index("holder")
_TEXTS = (_NAME, HEADER.index("mode"), _HOLDER)
_NONE = "-"
_ROOMY = 100

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def tab_separated(locks: Sequence[LockInfo]) -> list[str]:
    """Return a header and a line per hold: full values, times in seconds."""
    rows = [HEADER, *(row for lock in locks for row in _rows(lock, full=True))]
    return ["\t".join(row) for row in rows]


def columns(locks: Sequence[LockInfo], width: int) -> list[str]:
    """Return a header and a line per hold, not longer than `width` if that can be done."""
    rows = [_SHORT_HEADER, *(row for lock in locks for row in _rows(lock, full=False))]
    gap = "  " if width >= _ROOMY else " "
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    others = sum(widths) - widths[_NAME] - widths[_HOLDER]
    room = max(width - others - len(gap) * (len(widths) - 1), 2 * len("name…"))
    # Each of the two may have half; what one does not need goes to the other.
    wanted = widths[_NAME]
    widths[_NAME] = min(wanted, max(room // 2, room - widths[_HOLDER]))
    widths[_HOLDER] = min(widths[_HOLDER], room - widths[_NAME])
    return [
        gap.join(
            shorten(cell, size).ljust(size) if i in _TEXTS else cell.rjust(size)
            for i, (cell, size) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def details(lock: LockInfo, width: int | None) -> Iterator[str]:
    """Return all that is known of one lock; `width` None does not shorten lines."""
    yield f"Lock {printable(lock.name)} ({lock.mode})"
    if not lock.holders:
        yield "Nobody holds it."
    for holder in lock.holders:
        yield f"Held by {printable(str(holder))}"
        yield f"  held for       {duration(holder.held_for)}"
        yield f"  lease left     {duration(holder.lease_left)}"
        yield f"  fencing token  {holder.fencing_token}"
        yield f"  token          {printable(holder.token)}"
    if not lock.waiting:
        yield "Nobody waits for it."
        return
    yield f"Queue ({lock.waiting} waiting)"
    for place, waiter in enumerate(lock.waiters, 1):
        line = (
            f"  {place:>3}  {duration(waiter.waited):>6}  {waiter.mode}  {printable(str(waiter))}"
        )
        yield shorten(line, width) if width else line
    if lock.waiting > len(lock.waiters):
        yield f"       and {lock.waiting - len(lock.waiters)} more"


def _rows(lock: LockInfo, *, full: bool) -> Iterator[tuple[str, ...]]:
    name, waiting = printable(lock.name), str(lock.waiting)
    if not lock.holders:
        yield (name, lock.mode, _NONE, _NONE, _NONE, waiting, _NONE)
    for holder in lock.holders:
        yield (
            name,
            holder.mode,
            printable(str(holder) if full else f"{holder.host} pid {holder.pid}"),
            f"{holder.held_for:.3f}" if full else duration(holder.held_for),
            f"{holder.lease_left:.3f}" if full else duration(holder.lease_left),
            waiting,
            str(holder.fencing_token),
        )


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


def shorten(text: str, width: int) -> str:
    """Return `text` with an ellipsis for its middle if it is longer than `width`."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def printable(text: str) -> str:
    """Return `text` with escapes for what would break a line or mislead its reader."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
