"""`manage.py locks release`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser

from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo, audit
from redis_locks.inspection.story import runs
from redis_locks.management.locks.console import Console, fail
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.show import find
from redis_locks.management.locks.verb import Verb, add_consent
from redis_locks.values.text import duration, printable


class Release(Verb):
    """Force-release."""

    name = "release"
    help = "End the hold of a lock and hand it on."
    examples = ("release account:17", "release account:17 --yes --reason 'stuck since 3:05'")

    def arguments(self, parser: CommandParser) -> None:
        """Add the name, and the consent."""
        parser.add_argument("name", help="the name of the lock")
        add_consent(parser)

    def run(self, console: Console, **options: Any) -> None:
        """End the holds of one lock, those that were shown when asking."""
        using = options["using"]
        lock = find(options["name"], using)
        name, shown = lock.name, printable(lock.name)
        if not lock.holders:
            fail(f"Nobody holds lock '{shown}'; {lock.waiting} waiting for it.")
        by = named(lock.holders)
        if not options["yes"]:
            question = f"Release lock '{shown}' held by {by}? {_successor(lock)}"
            console.confirm(question, "release", "released")
        deed = audit.Deed(audit.operator(), options["reason"], using)
        ended, fencing_token = deed.force_release(name, lock.holders)
        if not ended:
            fail(f"Lock '{shown}' is no longer held by {by}; nothing was released.")
        row: Row = {"name": name, "released": len(ended), "fencing_token": fencing_token}
        text = (
            f"Released lock '{shown}', which was held by {named(ended)}. "
            f"Fencing tokens below {fencing_token} are overtaken."
        )
        console.report(Report.of(row, text), options["format"])
        console.note(
            "The holder learns of it at once, or at its next renewal if it cannot be told."
        )


def named(parties: Sequence[HolderInfo] | Sequence[WaiterInfo]) -> str:
    """Return the first three of these, and how many more there are."""
    who = printable("; ".join(map(str, parties[:3])))
    return f"{who} and {len(parties) - 3} more" if len(parties) > 3 else who  # noqa: PLR2004


def _successor(lock: LockInfo) -> str:
    if not lock.waiters:
        return "Nobody waits for it."
    first = lock.waiters[0]
    return f"{lock.waiting} waiting; next: {runs(first)}, waiting for {duration(first.waited)}."
