"""`manage.py locks history`."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from redis_locks import statistics
from redis_locks.conf.name_function import both_forms
from redis_locks.conf.settings import get_settings
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.report import FOR_PROGRAMS, Report
from redis_locks.management.locks.selection import did_you_mean
from redis_locks.management.locks.table import TableColumn, drawn
from redis_locks.management.locks.verb import Verb, count
from redis_locks.statistics import PastHold
from redis_locks.values.text import latency, printable

_COLUMNS = tuple(field.name for field in fields(PastHold))
_TABLE = (
    TableColumn("ENDED (UTC)"),
    TableColumn("HELD FOR", is_number=True),
    TableColumn("OUTCOME"),
    TableColumn("HOLDER", shrinks=1),
)


class History(Verb):
    """The past holds of a lock."""

    name = "history"
    help = "Show the past holds of a lock, latest first: who, when, how long, how it ended."
    details = "The setting HISTORY says how many are kept. `show` has those who hold it now."
    examples = ("history account:17", "history account:17 --format csv")

    def arguments(self, parser: CommandParser) -> None:
        """Add the lock and the limit."""
        parser.add_argument("name", help="the lock")
        parser.add_argument("--limit", type=count, metavar="N", help="show at most so many holds")

    def run(self, console: Console, **options: Any) -> None:
        """Print the holds."""
        each = (
            statistics.holds(name, using=options["using"]) for name in both_forms(options["name"])
        )
        past = next(filter(None, each), [])[: options["limit"]]
        rows = [asdict(hold) for hold in past]
        report = Report(
            rows,
            _COLUMNS,
            rows,
            lambda columns: console.headed(drawn(_TABLE, map(_cells, past), columns)),
        )
        console.report(report, options["format"])
        if options["format"] in FOR_PROGRAMS or past:
            return
        if get_settings().history:
            asked = did_you_mean(options["name"], options["using"])
            console.note(f"No hold of this lock has ended in the last day.{asked}")
        else:
            console.note('None is kept. REDIS_LOCKS["HISTORY"] says how many to keep: 50, say.')


def _cells(hold: PastHold) -> tuple[str, ...]:
    ended = datetime.fromtimestamp(hold.ended, UTC)
    who = f"{hold.who} ({hold.detail})" if hold.detail else hold.who
    return (
        f"{ended:%Y-%m-%d %H:%M:%S}",
        latency(hold.ended - hold.began),
        hold.outcome,
        printable(who),
    )
