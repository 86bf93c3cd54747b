"""Tables for people, as wide as the terminal; that of locks has one line a hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redis_locks.inspection import LockInfo
from redis_locks.inspection.cases import Case
from redis_locks.inspection.filters import LockState
from redis_locks.statistics.usual import Recent
from redis_locks.values.text import duration, latency, pad, printable, shorten, width

_HEADER = (
    "NAME",
    "STATE",
    "MODE",
    "RUNS",
    "HOLDER",
    *("HELD", "USUAL", "WAITERS", "OLDEST", "LEFT"),
)
_NAME, _STATE, _MODE, _RUNS, _HOLDER, _USUALLY = map(
    _HEADER.index, ("NAME", "STATE", "MODE", "RUNS", "HOLDER", "USUAL")
)
_FLEXIBLE = (_NAME, _RUNS, _HOLDER)
_NUMBERS = tuple(map(_HEADER.index, ("HELD", "USUAL", "WAITERS", "OLDEST", "LEFT")))
_USUAL = "exclusive"
_NONE = "-"
_SHORTEST = 8
_GAP = "  "


def table(
    locks: Sequence[LockInfo],
    columns: int | None,
    recent: Recent | None = None,
    states: Mapping[str, LockState] | None = None,
) -> list[str]:
    """Return a header and a line per hold that was read, not longer than `columns` if that can be done.

    Long texts lose their middle, where they differ least: first what the holder runs and where,
    then the name. None shortens nothing. A column that says nothing is left out: the mode where all
    are exclusive, the state where all is well. Where there is no room, the mode goes, then the
    holder, and then what it runs: `show` has them.

    Args:
        locks: The locks.
        columns: The width of the terminal.
        recent: It knows what is usual.
        states: What is going on with each lock, by name.
    """
    rows = [_HEADER, *(row for lock in locks for row in _rows(lock, recent, states or {}))]
    shown = list(range(len(_HEADER)))
    if all(lock.mode == _USUAL for lock in locks):
        shown.remove(_MODE)
    for column in (_STATE, _USUALLY):
        if all(row[column] in {_NONE, ""} for row in rows[1:]):
            shown.remove(column)
    if columns is not None:
        for column in (_MODE, _HOLDER, _RUNS):
            if column in shown and _least(rows, shown) > columns:
                shown.remove(column)
    return aligned(rows, columns, shown=shown, flexible=_FLEXIBLE, numbers=_NUMBERS, kept=(_NAME,))


def _least(rows: Sequence[Sequence[str]], shown: Sequence[int]) -> int:
    """Return how wide the table is at least."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    short = [min(widths[i], _SHORTEST) for i in shown if i in _FLEXIBLE]
    return taken(widths, shown, _FLEXIBLE) + sum(short)


def aligned(
    rows: Sequence[Sequence[str]],
    columns: int | None,
    *,
    shown: Sequence[int],
    flexible: Sequence[int],
    numbers: Sequence[int],
    kept: Sequence[int] = (),
) -> list[str]:
    """Return rows as lines, not longer than `columns` if that can be done.

    Args:
        rows: The header first.
        columns: The width of the terminal; None shortens nothing.
        shown: Which fields of a row are shown.
        flexible: Those of them that are shortened.
        kept: Those that are shortened only if the others are short already.
        numbers: Those that stand to the right.
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    if columns is not None:
        room = columns - taken(widths, shown, flexible)
        first = [i for i in kept if i in shown]
        others = [i for i in flexible if i in shown and i not in first]
        for i in first:
            rest = sum(min(widths[other], _SHORTEST) for other in others)
            widths[i] = min(widths[i], max(room - rest, _SHORTEST))
            room -= widths[i]
        for i, share in zip(others, _shares([widths[i] for i in others], room), strict=True):
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


_STATES = {
    Case.GONE: "gone",
    Case.LONG: "long",
    Case.STALE: "stale",
    Case.CONVOY: "convoy",
    Case.DEADLOCK: "deadlock",
}


def word_for(state: LockState | None) -> str:
    """Return what is wrong with a lock in a word or two; empty if nothing is."""
    if state is None:
        return ""
    cases = [state.case, *([Case.DEADLOCK] if state.deadlock is not None else [])]
    return ",".join(_STATES[case] for case in cases if case in _STATES)


def _rows(
    lock: LockInfo, recent: Recent | None, states: Mapping[str, LockState]
) -> list[tuple[str, ...]]:
    name, waiting = printable(lock.name), str(lock.waiting)
    state = word_for(states.get(lock.name)) or _NONE
    oldest = max((waiter.waited for waiter in lock.waiters), default=None)
    waited = _NONE if oldest is None else duration(oldest)
    if not lock.holders:
        hand_off = (name, state, lock.mode, "(hand-off)")
        return [(*hand_off, _NONE, _NONE, _NONE, waiting, waited, _NONE)]
    usual = recent.usual(lock.name) if recent else None
    holds: list[tuple[str, ...]] = [
        (
            name,
            state,
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
        others = (name, state, lock.mode, f"(and {more} more)")
        holds.append((*others, _NONE, _NONE, _NONE, waiting, waited, _NONE))
    return holds
