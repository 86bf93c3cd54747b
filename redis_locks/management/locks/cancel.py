"""`manage.py locks cancel`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from redis_locks.inspection import audit
from redis_locks.management.locks.console import Console, fail
from redis_locks.management.locks.release import named
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.show import find
from redis_locks.management.locks.verb import Verb, add_consent
from redis_locks.values.text import printable


class Cancel(Verb):
    """End waits."""

    name = "cancel"
    help = "End the waits for a lock; each waiter gets an error at once."
    examples = ("cancel account:17", "cancel account:17 TOKEN --yes --reason 'client is gone'")

    def arguments(self, parser: CommandParser) -> None:
        """Add the name, the waiter, and the consent."""
        parser.add_argument("name", help="the name of the lock")
        parser.add_argument(
            "token", nargs="?", help="the waiter, as `show NAME --json` prints it; without: all"
        )
        add_consent(parser)

    def run(self, console: Console, **options: Any) -> None:
        """End the waits that were shown when asking."""
        using, token = options["using"], options["token"]
        lock = find(options["name"], using)
        name, shown = lock.name, printable(lock.name)
        waiters = [waiter for waiter in lock.waiters if token in (None, waiter.token)]
        if not waiters:
            fail(f"Nobody waits for lock '{shown}'" + (" with this token." if token else "."))
        who = named(waiters)
        if not options["yes"]:
            console.confirm(f"Cancel the wait of {who} for lock '{shown}'?", "cancel", "cancelled")
        deed = audit.Deed(audit.operator(), options["reason"], using)
        ended = deed.cancel(name, waiters)
        if not ended:
            fail(f"Lock '{shown}' is no longer waited for by {who}; nothing was cancelled.")
        waits = "1 wait" if len(ended) == 1 else f"{len(ended)} waits"
        row: Row = {"name": name, "cancelled": len(ended)}
        text = f"Cancelled {waits} for lock '{shown}'."
        console.report(Report.of(row, text), options["format"])
