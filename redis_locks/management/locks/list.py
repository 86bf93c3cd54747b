"""`manage.py locks list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from redis_locks.conf.settings import get_settings
from redis_locks.inspection import LockInfo
from redis_locks.management.locks import selection
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.report import FOR_PROGRAMS, Report, Row
from redis_locks.management.locks.selection import Selection
from redis_locks.management.locks.table import table
from redis_locks.management.locks.verb import Verb
from redis_locks.statistics.usual import Recent

_HOLDER = ("host", "pid", "unit", "label", "held_for", "lease_left", "fencing_token")
_COLUMNS = ("name", "mode", "holding", "waiting", *_HOLDER)


class List(Verb):
    """A table of the locks, a line per hold."""

    name = "list"
    help = "List the locks that are held or waited for, trouble first."
    examples = ("list", "list 'account:*' --contended", "list --older 60 --sort held --json")

    def arguments(self, parser: CommandParser) -> None:
        """Add filters, order and limit."""
        selection.add_arguments(parser)

    def run(self, console: Console, **options: Any) -> None:
        """Print the locks; tab-separated when stdout is not a terminal."""
        chosen = Selection.of(options)
        found = chosen.search(options["using"])
        shown = found.part(0, chosen.limit)
        console.report(_report(shown, console, found.recent), options["format"], piped="plain")
        there, read = found.survey.total, len(found.survey.locks)
        if not found.complete:
            # Programs, too, must not take a part for all.
            console.note(
                f"Of {there:,} locks, this looked at {read:,}: those with long waits, others with waiters, and those "
                "whose leases end first. Give a name to find any other, or a --limit to look at more."
            )
        if options["format"] in FOR_PROGRAMS:
            return
        if not there:
            console.note("No lock is held or waited for.")
        elif not shown:
            console.note(f"None of the {there} locks matches.")
        elif chosen.limit is not None and chosen.limit < len(found):
            console.note(f"{len(shown)} of {len(found)} locks.")
        others = [server for server in get_settings().server_names if server]
        if others and options["using"] is None:
            console.note(f"These are of the default server. Others: --using {' or '.join(others)}.")


def _report(locks: Sequence[LockInfo], console: Console, recent: Recent) -> Report:
    def text(columns: int | None) -> list[str]:
        if not locks:
            return []
        header, *lines = table(locks, columns, recent)
        return [console.style.MIGRATE_LABEL(header), *lines]

    rows = [row for lock in locks for row in _rows(lock)]
    return Report([asdict(lock) for lock in locks], _COLUMNS, rows, text)


def _rows(lock: LockInfo) -> list[Row]:
    counts = {"holding": lock.holding, "waiting": lock.waiting}
    common: Row = {"name": lock.name, "mode": lock.mode, **counts}
    if not lock.holders:
        return [common | dict.fromkeys(_HOLDER)]
    return [
        common | {field: getattr(holder, field) for field in ("mode", *_HOLDER)}
        for holder in lock.holders
    ]
