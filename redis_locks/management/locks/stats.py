"""`manage.py locks stats`."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from django.core.management.base import CommandParser

from redis_locks import statistics
from redis_locks.conf.settings import get_settings
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.report import FOR_PROGRAMS, Report
from redis_locks.management.locks.table import NONE, TableColumn, drawn
from redis_locks.management.locks.verb import Verb, count
from redis_locks.statistics import LockStatistics
from redis_locks.statistics.history import ORDERS, Period, ordered
from redis_locks.values.text import latency, printable

_COLUMNS = tuple(field.name for field in fields(LockStatistics))


_TABLE = (
    TableColumn("NAME", shrinks=1),
    *(TableColumn(header, is_number=True) for header in ("ACQUIRED", "CONTENDED")),
    *(
        TableColumn(header, is_number=True, blank="0")
        for header in ("TIMEOUTS", "LOST", "DEADLOCKS", "AWAY")
    ),
    TableColumn("WAIT50", is_number=True, goes=1),
    TableColumn("WAIT99", is_number=True),
    TableColumn("HOLD50", is_number=True, goes=2),
    TableColumn("HOLD99", is_number=True),
)


class Stats(Verb):
    """How often each lock was acquired and contended, and how long waits and holds were."""

    name = "stats"
    help = "Show how often each lock was acquired, contended and lost, most contended first."
    examples = ("stats", "stats 'account:*' --day", "stats --sort hold --format csv")
    details = (
        "AWAY counts acquires that failed because Redis did not answer. WAIT50 and WAIT99 are the "
        "median and the 99th percentile of the waits, HOLD50 and HOLD99 those of the holds. "
        "Columns without any figure are left out."
    )

    def arguments(self, parser: CommandParser) -> None:
        """Add the filter, the period, the order and the limit."""
        parser.add_argument("pattern", nargs="?", help="only locks whose name matches: 'account:*'")
        parser.add_argument(
            "--day", action="store_true", help="of the last day; default: of the last hour"
        )
        parser.add_argument(
            "--sort", choices=ORDERS, default="contended", help="default: %(default)s"
        )
        parser.add_argument("--limit", type=count, metavar="N", help="show at most so many locks")

    def run(self, console: Console, **options: Any) -> None:
        """Print the figures of the period."""
        period: Period = "day" if options["day"] else "hour"
        pattern = options["pattern"]
        figures = statistics.read(period, using=options["using"], pattern=pattern)
        rows = figures.locks
        shown = ordered(rows, options["sort"])[: options["limit"]]
        if figures.others and len(shown) == len(rows):
            shown.append(figures.others)
        records = [asdict(row) for row in shown]
        report = Report(
            records,
            _COLUMNS,
            records,
            lambda columns: console.headed(drawn(_TABLE, map(_cells, shown), columns)),
        )
        console.report(report, options["format"])
        if options["format"] in FOR_PROGRAMS:
            return
        if len(shown) < len(rows):
            console.note(f"{len(shown):,} of {len(rows):,} locks.")
        if not rows:
            of = "" if pattern is None else f" of locks whose names match '{printable(pattern)}'"
            console.note(f"Nothing was counted{of} in the last {period}.")
            if not get_settings().statistics:
                console.note('They are switched off: REDIS_LOCKS["STATISTICS"] is False.')


def _cells(row: LockStatistics) -> tuple[str, ...]:
    times = (row.wait_p50, row.wait_p99, row.hold_p50, row.hold_p99)
    counts = (row.acquired, row.contended, row.timed_out, row.lost, row.deadlocks, row.unavailable)
    return (
        printable(row.name) or "(all others)",
        *map(str, counts),
        *(NONE if seconds is None else latency(seconds) for seconds in times),
    )
