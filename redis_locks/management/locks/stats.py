"""`manage.py locks stats` and `history`: what processes have counted, and past holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from redis_locks import statistics
from redis_locks.conf.name_function import both_forms
from redis_locks.conf.settings import get_settings
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.list import did_you_mean
from redis_locks.management.locks.report import FOR_PROGRAMS, Report
from redis_locks.management.locks.table import NONE, TableColumn, drawn
from redis_locks.management.locks.verb import COUNT, LIMIT, NAME, PATTERN, Argument, Verb
from redis_locks.statistics import LockStatistics, PastHold
from redis_locks.statistics.history import ORDERS, Period, ordered
from redis_locks.values.text import latency, printable

_FIGURES = (
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


_PAST_HOLDS = (
    TableColumn("ENDED (UTC)"),
    TableColumn("HELD FOR", is_number=True),
    TableColumn("OUTCOME"),
    TableColumn("HOLDER", shrinks=1),
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
    arguments = (
        PATTERN,
        Argument("--day", action="store_true", help="of the last day; default: of the last hour"),
        Argument("--sort", choices=ORDERS, default="contended", help="default: %(default)s"),
        LIMIT,
    )

    def run(self, console: Console, **options: Any) -> None:
        """Print the figures of the period."""
        period: Period = "day" if options["day"] else "hour"
        pattern = options["pattern"]
        figures = statistics.read(period, using=options["using"], pattern=pattern)
        rows = figures.locks
        shown = ordered(rows, options["sort"])[: options["limit"]]
        if figures.others and len(shown) == len(rows):
            shown.append(figures.others)
        _print(console, LockStatistics, shown, _FIGURES, _figures, options["format"])
        if options["format"] in FOR_PROGRAMS:
            return
        if len(shown) < len(rows):
            console.note(f"{len(shown):,} of {len(rows):,} locks.")
        if not rows:
            of = "" if pattern is None else f" of locks whose names match '{printable(pattern)}'"
            console.note(f"Nothing was counted{of} in the last {period}.")
            if not get_settings().statistics:
                console.note('They are switched off: REDIS_LOCKS["STATISTICS"] is False.')


class History(Verb):
    """The past holds of a lock."""

    name = "history"
    help = "Show the past holds of a lock, latest first: who, when, how long, how it ended."
    details = "The setting HISTORY says how many are kept. `show` has those who hold it now."
    examples = ("history account:17", "history account:17 --format csv")
    arguments = (NAME, Argument("--limit", **COUNT, help="show at most so many holds"))

    def run(self, console: Console, **options: Any) -> None:
        """Print the holds."""
        using = options["using"]
        each = (statistics.holds(name, using=using) for name in both_forms(options["name"]))
        past = next(filter(None, each), [])[: options["limit"]]
        _print(console, PastHold, past, _PAST_HOLDS, _past_hold, options["format"])
        if options["format"] in FOR_PROGRAMS or past:
            return
        if get_settings().history:
            asked = did_you_mean(options["name"], using)
            console.note(f"No hold of this lock has ended in the last day.{asked}")
        else:
            console.note('None is kept. REDIS_LOCKS["HISTORY"] says how many to keep: 50, say.')


def _print(
    console: Console,
    kind: type[Any],
    records: Sequence[Any],
    columns: Sequence[TableColumn],
    cells: Callable[[Any], tuple[str, ...]],
    wanted: str | None,
) -> None:
    """Print records of a dataclass, to people as a table of these columns and cells."""

    def text(width: int | None) -> list[str]:
        return console.headed(drawn(columns, map(cells, records), width))

    console.report(Report.of_all(kind, records, text), wanted)


def _figures(row: LockStatistics) -> tuple[str, ...]:
    times = (row.wait_p50, row.wait_p99, row.hold_p50, row.hold_p99)
    counts = (row.acquired, row.contended, row.timed_out, row.lost, row.deadlocks, row.unavailable)
    return (
        printable(row.name) or "(all others)",
        *map(str, counts),
        *(NONE if seconds is None else latency(seconds) for seconds in times),
    )


def _past_hold(hold: PastHold) -> tuple[str, ...]:
    ended = datetime.fromtimestamp(hold.ended, UTC)
    who = f"{hold.who} ({hold.detail})" if hold.detail else hold.who
    return (
        f"{ended:%Y-%m-%d %H:%M:%S}",
        latency(hold.ended - hold.began),
        hold.outcome,
        printable(who),
    )
