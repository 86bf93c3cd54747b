"""`manage.py locks blocking`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from redis_locks.inspection import HolderInfo, blockers
from redis_locks.inspection.blockers import Blocked, Node
from redis_locks.inspection.survey import contended
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.report import FOR_PROGRAMS, Report, Row
from redis_locks.management.locks.verb import Argument, Verb
from redis_locks.statistics.circles import Circle
from redis_locks.statistics.usual import recent
from redis_locks.values.text import duration, printable, shorten, wrapped

_WHO = ("host", "pid", "unit", "label")
_COLUMNS = (
    "lock",
    *(f"waiter_{field}" for field in _WHO),
    "waited",
    *(f"holder_{field}" for field in _WHO),
    "held_for",
)


_NARROWEST = 24
"""Columns that a session has at least, however deep in the tree it is."""

_MOST_ENDS = 10
"""How many waiters of a session that block nobody a terminal shows."""

_MOST_PAST = 3
"""How many deadlocks of the last hour are told."""


class Blocking(Verb):
    """A tree of who waits for whom."""

    name = "blocking"
    help = "Show who blocks whom, as a tree."
    examples = ("blocking",)
    arguments = (
        Argument("--all", action="store_true", help="on a terminal: all waiters that block nobody"),
    )

    def run(self, console: Console, **options: Any) -> None:
        """Print a tree for each session that blocks others and is not blocked itself."""
        locks, whole = contended(using=options["using"])
        pairs = blockers.blocked(locks)
        rows = [_row(pair) for pair in pairs]
        most = len(pairs) if options.get("all") or not console.lines else _MOST_ENDS
        console.report(
            Report(rows, _COLUMNS, rows, lambda columns: _text(pairs, columns, most)),
            options["format"],
        )
        if not whole:
            console.note(
                f"These are {len(locks):,} locks with waiters, long waits first. There may be more."
            )
        if options["format"] in FOR_PROGRAMS:
            return
        if not pairs:
            console.note("Nobody waits for a lock that somebody holds.")
        for line in _past(recent(using=options["using"]).circles[:_MOST_PAST], console.columns):
            console.note(line)


def _past(circles: Sequence[Circle], columns: int | None) -> Iterator[str]:
    """Yield the latest deadlocks: who waited, for which locks, and at which lines of code."""
    for circle in circles:
        yield f"Deadlock broken at {datetime.fromtimestamp(circle.at, UTC):%H:%M:%S} UTC:"
        for wait in circle.waits:
            yield from _broken(printable(str(wait)), "- ", "  ", columns)


def _row(pair: Blocked) -> Row:
    return {
        "lock": pair.lock,
        **{f"waiter_{field}": getattr(pair.waiter, field) for field in _WHO},
        "waited": pair.waiter.waited,
        **{f"holder_{field}": getattr(pair.holder, field) for field in _WHO},
        "held_for": pair.holder.held_for,
    }


def _text(pairs: Sequence[Blocked], columns: int | None, most: int) -> Iterator[str]:
    for root in blockers.trees(pairs):
        yield from _lines(root, "", "", columns, most)


def _lines(node: Node, first: str, rest: str, columns: int | None, most: int) -> Iterator[str]:
    shown, left_out = node.first_blocked(most)
    yield from _broken(_line(node), first, rest + ("│  " if node.blocks else "   "), columns)
    for i, child in enumerate(shown, 1):
        last = i == len(shown) and not left_out
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _lines(child, rest + branch, rest + below, columns, most)
    if left_out:
        text = f"… {left_out:,} more that block nobody (`--all`)"
        yield from _broken(text, rest + "└─ ", rest + "   ", columns)


def _broken(text: str, first: str, rest: str, columns: int | None) -> Iterator[str]:
    """Yield a line, broken between words where it is too long, behind what stands before it.

    Deep down that is cut.
    """
    room = None if columns is None else max(columns - max(len(first), len(rest)), _NARROWEST)
    for place, line in enumerate(wrapped(text, room)):
        before = rest if place else first
        if room is not None and columns is not None:
            before = before[max(0, len(before) - max(0, columns - room)) :]
        yield shorten(before + line, columns)


def _line(node: Node) -> str:
    """Return what a session does."""
    who, lock = printable(str(node.who)), printable(node.lock or "")
    if isinstance(node.who, HolderInfo):
        return f"{who} blocks {len(node.blocks)}"
    return f"{who} waits {duration(node.who.waited)} for {lock}{_remark(node)}"


def _remark(node: Node) -> str:
    if node.deadlocked:
        return ": DEADLOCK with the above"
    if node.cut:
        return ", and more below in a tree of its own"
    return ", see also elsewhere" if node.repeated else ""
