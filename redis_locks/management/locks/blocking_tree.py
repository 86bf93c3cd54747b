"""`manage.py locks blocking`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from redis_locks.inspection import HolderInfo, blockers
from redis_locks.inspection.blockers import Blocked, Node
from redis_locks.inspection.survey import contended
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.report import FOR_PROGRAMS, Report, Row
from redis_locks.management.locks.verb import Verb
from redis_locks.values.text import duration, printable, shorten, width

_WHO = ("host", "pid", "unit", "label")
_COLUMNS = (
    "lock",
    *(f"waiter_{field}" for field in _WHO),
    "waited",
    *(f"holder_{field}" for field in _WHO),
    "held_for",
)


class Blocking(Verb):
    """A tree of who waits for whom."""

    name = "blocking"
    help = "Show who blocks whom, as a tree."
    examples = ("blocking",)

    def run(self, console: Console, **options: Any) -> None:
        """Print a tree for each session that blocks others and is not blocked itself."""
        locks, whole = contended(using=options["using"])
        pairs = blockers.blocked(locks)
        rows = [_row(pair) for pair in pairs]
        console.report(
            Report(rows, _COLUMNS, rows, lambda columns: _text(pairs, columns)), options["format"]
        )
        if not whole:
            console.note(
                f"These are {len(locks):,} locks with waiters, long waits first. There may be more."
            )
        if not pairs and options["format"] not in FOR_PROGRAMS:
            console.note("Nobody waits for a lock that somebody holds.")


def _row(pair: Blocked) -> Row:
    return {
        "lock": pair.lock,
        **{f"waiter_{field}": getattr(pair.waiter, field) for field in _WHO},
        "waited": pair.waiter.waited,
        **{f"holder_{field}": getattr(pair.holder, field) for field in _WHO},
        "held_for": pair.holder.held_for,
    }


def _text(pairs: Sequence[Blocked], columns: int | None) -> Iterator[str]:
    for root in blockers.trees(pairs):
        for line in _lines(root, "", "", columns):
            yield shorten(line, columns)


def _lines(node: Node, first: str, rest: str, columns: int | None) -> Iterator[str]:
    yield first + _line(node, None if columns is None else columns - len(first))
    for i, child in enumerate(node.blocks, 1):
        last = i == len(node.blocks)
        yield from _lines(
            child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), columns
        )


def _line(node: Node, columns: int | None) -> str:
    """Return what a session does. Where there is no room, who it is and the lock lose their middle: the rest is short."""
    who, lock = printable(str(node.who)), printable(node.lock or "")
    if isinstance(node.who, HolderInfo):
        does, more = f" blocks {len(node.blocks)}", ""
    else:
        does, more = f" waits {duration(node.who.waited)} for ", _remark(node)
    if columns is not None:
        room = max(2, columns - len(does) - len(more))
        lock = shorten(lock, max(room // 2, room - width(who)))
        who = shorten(who, room - width(lock))
    return f"{who}{does}{lock}{more}"


def _remark(node: Node) -> str:
    if node.deadlocked:
        return ": DEADLOCK with the above"
    if node.cut:
        return ", and more below in a tree of its own"
    return ", see also elsewhere" if node.repeated else ""
