"""Tables for people, as wide as the terminal; that of locks has one line a hold."""

from __future__ import annotations

from collections.abc import Sequence

from redis_locks.inspection import LockInfo
from redis_locks.statistics.usual import Recent
from redis_locks.values.text import duration, latency, pad, printable, shorten, width

_HEADER = ("NAME", "MODE", "RUNS", "HOLDER", "HELD", "USUAL", "WAITERS", "OLDEST", "LEFT")
_MODE, _USUALLY, _LEFT = map(_HEADER.index, ("MODE", "USUAL", "LEFT"))
_FLEXIBLE = tuple(map(_HEADER.index, ("NAME", "RUNS", "HOLDER")))
_NUMBERS = tuple(map(_HEADER.index, ("HELD", "USUAL", "WAITERS", "OLDEST", "LEFT")))
_USUAL = "exclusive"
_NONE = "-"
_SHORTEST = 8
_GAP = "  "


def table(
    locks: Sequence[LockInfo], columns: int | None, recent: Recent | None = None
) -> list[str]:
    """Return a header and a line per hold that was read, not longer than `columns` if that can be done.

    Long names and holders lose their middle, where they differ least. None shortens nothing.
    The mode is left out where all are exclusive. Where there is no room, the usual hold and the lease
    are left out too: `show` has them. `recent` knows what is usual.
    """
    rows = [_HEADER, *(row for lock in locks for row in _rows(lock, recent))]
    shown = list(range(len(_HEADER)))
    if all(lock.mode == _USUAL for lock in locks):
        shown.remove(_MODE)
    if all(row[_USUALLY] == _NONE for row in rows[1:]):
        shown.remove(_USUALLY)
    whole = aligned(rows, None, shown=shown, flexible=_FLEXIBLE, numbers=_NUMBERS)
    if columns is None or max(map(width, whole)) <= columns:
        return whole
    shown = [i for i in shown if i not in {_USUALLY, _LEFT}]
    return aligned(rows, columns, shown=shown, flexible=_FLEXIBLE, numbers=_NUMBERS)


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


def _rows(lock: LockInfo, recent: Recent | None) -> list[tuple[str, ...]]:
    name, waiting = printable(lock.name), str(lock.waiting)
    oldest = max((waiter.waited for waiter in lock.waiters), default=None)
    waited = _NONE if oldest is None else duration(oldest)
    if not lock.holders:
        return [
            (name, lock.mode, "(being handed over)", _NONE, _NONE, _NONE, waiting, waited, _NONE)
        ]
    usual = recent.usual(lock.name) if recent else None
    holds: list[tuple[str, ...]] = [
        (
            name,
            holder.mode,
            printable(holder.label),
            # Without the thread or task, which few people look for first; `show` has it.
            printable(f"{holder.host} pid {holder.pid}"),
            duration(holder.held_for),
            latency(usual.p99) if usual else _NONE,
            waiting,
            waited,
            duration(holder.lease_left),
        )
        for holder in lock.holders
    ]
    if (more := lock.holding - len(lock.holders)) > 0:
        others = f"(and {more} more)"
        holds.append((name, lock.mode, others, _NONE, _NONE, _NONE, waiting, waited, _NONE))
    return holds
