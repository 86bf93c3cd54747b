"""Tables for people, as wide as the terminal; that of locks has one line a hold."""

from __future__ import annotations

from collections.abc import Sequence

from redis_locks.inspection import LockInfo
from redis_locks.values.text import duration, pad, printable, shorten, width

_HEADER = ("NAME", "MODE", "HOLDER", "RUNS", "HELD", "LEFT", "WAITERS", "FENCE")
_MODE, _RUNS = map(_HEADER.index, ("MODE", "RUNS"))
_FLEXIBLE = tuple(map(_HEADER.index, ("NAME", "HOLDER", "RUNS")))
_NUMBERS = tuple(map(_HEADER.index, ("HELD", "LEFT", "WAITERS", "FENCE")))
_USUAL = "exclusive"
_NONE = "-"
_SHORTEST = 8
_GAP = "  "


def table(locks: Sequence[LockInfo], columns: int | None) -> list[str]:
    """Return a header and a line per hold, not longer than `columns` if that can be done.

    Long names and holders lose their middle, where they differ least. None shortens nothing.
    The mode is left out where all are exclusive, and what holders run where there is no room: `show` has it.
    """
    rows = [_HEADER, *(row for lock in locks for row in _rows(lock))]
    shown = list(range(len(_HEADER)))
    if all(lock.mode == _USUAL for lock in locks):
        shown.remove(_MODE)
    whole = aligned(rows, None, shown=shown, flexible=_FLEXIBLE, numbers=_NUMBERS)
    if columns is None or max(map(width, whole)) <= columns:
        return whole
    shown.remove(_RUNS)
    flexible = [i for i in _FLEXIBLE if i in shown]
    return aligned(rows, columns, shown=shown, flexible=flexible, numbers=_NUMBERS)


def aligned(
    rows: Sequence[Sequence[str]],
    columns: int | None,
    *,
    shown: Sequence[int],
    flexible: Sequence[int],
    numbers: Sequence[int],
) -> list[str]:
    """Return rows as lines, not longer than `columns` if that can be done.

    Args:
        rows: The header first.
        columns: The width of the terminal; None shortens nothing.
        shown: Which fields of a row are shown.
        flexible: Those of them that are shortened.
        numbers: Those that stand to the right.
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    if columns is not None:
        room = columns - taken(widths, shown, flexible)
        for i, share in zip(flexible, _shares([widths[i] for i in flexible], room), strict=True):
            widths[i] = share
    return [
        _GAP.join(
            pad(shorten(row[i], widths[i]), widths[i], right=i in numbers) for i in shown
        ).rstrip()
        for row in rows
    ]


def taken(widths: Sequence[int], shown: Sequence[int], flexible: Sequence[int]) -> int:
    """Return how many columns are taken by what is not flexible, gaps included."""
    return sum(widths[i] for i in shown if i not in flexible) + len(_GAP) * (len(shown) - 1)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return how much of `room` each gets: what it wants, or else an equal part of the rest."""
    shares = [0] * len(wanted)
    for left, i in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[i] = min(wanted[i], max(room // (len(wanted) - left), _SHORTEST))
        room -= shares[i]
    return shares


def _rows(lock: LockInfo) -> list[tuple[str, ...]]:
    name, waiting = printable(lock.name), str(lock.waiting)
    if not lock.holders:
        return [(name, lock.mode, _NONE, _NONE, _NONE, _NONE, waiting, _NONE)]
    return [
        (
            name,
            holder.mode,
            # Without the thread or task, which few people look for first; `show` has it.
            printable(f"{holder.host} pid {holder.pid}"),
            printable(holder.label),
            duration(holder.held_for),
            duration(holder.lease_left),
            waiting,
            str(holder.fencing_token),
        )
        for holder in lock.holders
    ]
