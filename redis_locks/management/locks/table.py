"""Tables for people, as wide as the terminal; that of locks has one line a hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redis_locks.inspection import LockInfo
from redis_locks.inspection.cases import Case
from redis_locks.inspection.filters import LockState
from redis_locks.statistics.usual import Recent
from redis_locks.values.text import duration, latency, pad, printable, shorten, width

NONE = "-"
_SHORTEST = 8
_GAP = "  "


@dataclass(frozen=True)
class TableColumn:
    """One column of a table.

    Attributes:
        header: Its title.
        is_number: Whether it stands to the right.
        shrinks: Whether it is shortened where there is no room: 1, or 2 only if the others are
            short already; 0: never.
        blank: A cell that says nothing: the column is left out if all cells are that.
        goes: When it is left out where there is no room, 1 first; 0: never.
    """

    header: str
    is_number: bool = False
    shrinks: int = 0
    blank: str | None = None
    goes: int = 0


class _Drawn(NamedTuple):
    """A column with its cells, the header first."""

    column: TableColumn
    cells: Sequence[str]

    @property
    def is_blank(self) -> bool:
        return self.column.blank is not None and {*self.cells[1:]} <= {self.column.blank}

    @property
    def width(self) -> int:
        return max(map(width, self.cells))

    @property
    def least(self) -> int:
        return min(self.width, _SHORTEST) if self.column.shrinks else self.width


def drawn(
    columns: Sequence[TableColumn], rows: Iterable[Sequence[str]], room: int | None = None
) -> list[str]:
    """Return a header and a line per row of cells, not longer than `room` if that can be done.

    None shortens nothing.

    Long texts lose their middle, where they differ least.
    """
    every = zip(columns, *rows, strict=True)
    shown = [_Drawn(column, (column.header, *cells)) for column, *cells in every]
    shown = [each for each in shown if not each.is_blank]
    if room is not None:
        for going in sorted(filter(lambda each: each.goes, columns), key=lambda each: each.goes):
            if sum(each.least for each in shown) + len(_GAP) * (len(shown) - 1) > room:
                shown = [each for each in shown if each.column is not going]
    widths = _widths(shown, room)
    return [
        _GAP.join(
            pad(shorten(cell, wide), wide, right=each.column.is_number)
            for each, wide, cell in zip(shown, widths, cells, strict=True)
        ).rstrip()
        for cells in zip(*(each.cells for each in shown), strict=True)
    ]


def _widths(shown: Sequence[_Drawn], room: int | None) -> list[int]:
    widths = [each.width for each in shown]
    if room is None:
        return widths
    left = room - len(_GAP) * (len(shown) - 1)
    left -= sum(each.width for each in shown if not each.column.shrinks)
    others = [i for i, each in enumerate(shown) if each.column.shrinks == 1]
    rest = sum(shown[i].least for i in others)
    for i, each in enumerate(shown):
        if each.column.shrinks > 1:
            widths[i] = min(widths[i], max(left - rest, _SHORTEST))
            left -= widths[i]
    # Each gets what it wants, or else an equal part of the rest.
    for before, i in enumerate(sorted(others, key=lambda i: widths[i])):
        widths[i] = min(widths[i], max(left // (len(others) - before), _SHORTEST))
        left -= widths[i]
    return widths


_COLUMNS = (
    TableColumn("NAME", shrinks=2),
    TableColumn("STATE", blank=NONE),
    TableColumn("MODE", blank="exclusive", goes=1),
    TableColumn("RUNS", shrinks=1, goes=3),
    TableColumn("HOLDER", shrinks=1, goes=2),
    TableColumn("HELD", is_number=True),
    TableColumn("USUAL", is_number=True, blank=NONE),
    TableColumn("WAITERS", is_number=True),
    TableColumn("OLDEST", is_number=True),
    TableColumn("LEFT", is_number=True),
)


def table(
    locks: Sequence[LockInfo],
    columns: int | None,
    recent: Recent | None = None,
    states: Mapping[str, LockState] | None = None,
) -> list[str]:
    """Return a header and a line per hold that was read.

    They are not longer than `columns`, if that can be done.

    First what the holder runs and where is shortened, then the name. Where there is no room, the
    mode goes, then the holder, and then what it runs: `show` has them.

    Args:
        locks: The locks.
        columns: The width of the terminal; None shortens nothing.
        recent: It knows what is usual.
        states: What is going on with each lock, by name.
    """
    rows = [row for lock in locks for row in _rows(lock, recent, states or {})]
    return drawn(_COLUMNS, rows, columns)


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
) -> Iterator[tuple[str, ...]]:
    lead = printable(lock.name), word_for(states.get(lock.name)) or NONE
    usual = recent.usual(lock.name) if recent else None
    oldest = max((waiter.waited for waiter in lock.waiters), default=None)
    waits = str(lock.waiting), NONE if oldest is None else duration(oldest)
    for holder in lock.holders:
        # Without the thread or task, which few people look for first; `show` has it.
        process = printable(f"{holder.host} pid {holder.pid}") if holder.host else NONE
        who = holder.mode, printable(holder.label), process
        times = duration(holder.held_for), latency(usual.p99) if usual else NONE
        yield (*lead, *who, *times, *waits, duration(holder.lease_left))
    more = lock.holding - len(lock.holders)
    if more > 0 or not lock.holders:
        runs = f"(and {more} more)" if lock.holders else "(hand-off)"
        yield (*lead, lock.mode, runs, NONE, NONE, NONE, *waits, NONE)
