"""The comparison in a terminal: tables, what they mean, and what is measured now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from django.core.management.color import Style

from demo_project.benchmark.subjects import TWO_COMMANDS
from redis_locks.management.locks.table import TableColumn, drawn

from .compare.book import NO_FOURTH_LOCK, TableTurn, rows_of, sentences_of
from .compare.plan import ACCOUNTS, Plan
from .compare.summaries import (
    P99,
    ROUND_TRIPS,
    THROUGHPUT,
    Metric,
    Summaries,
    Summary,
    money_of,
    summarise_rounds,
)
from .compare.verdict import verdict_of
from .models import Comparison
from .strategies import ROWS_NOTE, STRATEGIES, Kind, durability_of, named_methods

BOOK_COLUMNS = ("lock", "clients", "tries", "acquires", "±", "+/-", "book:", "acquires", "+/-")
BOOK_TITLE = 'Table 11.2 of "Redis in Action", tries and acquires in 10 s, beside the book'
BOOK_NOTE = (
    "+/-: acquires beside the original lock. = no difference; ? not decided, as the rounds "
    "disagree or are too few."
)
_WORDS = {"strategy", "money", "lock"}
LINE = 80
MOST_COLUMNS = 4
"""Columns of transfers per second that fit a line of 80 characters."""

Cells = tuple[str, ...]


def report(comparison: Comparison, style: Style) -> Iterator[str]:
    """Yield a table's lines for each kind of accounts, the verdict, and Table 11.2 if measured."""
    summaries = summarise_rounds(comparison.measurements.all())
    book = [row.cells for row in rows_of(comparison.book_table)]
    if book:
        yield from _table(BOOK_TITLE, BOOK_COLUMNS, book)
        notes = [BOOK_NOTE, *sentences_of(comparison.book_table)]
        if TWO_COMMANDS not in {row[0] for row in book}:
            notes.append(NO_FOURTH_LOCK)
        for note in notes:
            yield from wrap(note, LINE)
        yield ""
    for accounts in dict.fromkeys(kind for kind, _, _ in summaries):
        table = {key[1:]: found for key, found in summaries.items() if key[0] == accounts}
        yield from _accounts(accounts, table, style)
    for note in _notes(summaries):
        yield from [*wrap(note, LINE), ""]
    yield from (line.short for line in verdict_of(summaries))


def _accounts(accounts: str, table: dict[tuple[int, str], Summary], style: Style) -> Iterator[str]:
    workers = sorted({count for count, _ in table})
    shown = [*workers[: MOST_COLUMNS - 1], *workers[MOST_COLUMNS - 1 :][-1:]]
    most = shown[-1]
    columns = ("strategy", "trips", *map(str, shown), "p99 ms", "money")
    rows = []
    for name in dict.fromkeys(name for _, name in table):
        found = [table.get((count, name)) for count in shown]
        last = table.get((most, name))
        money = money_of(
            row for (_, each), one in table.items() if each == name for row in one.rows
        )
        row = (
            name,
            _median(last, ROUND_TRIPS),
            *(_median(one, THROUGHPUT) for one in found),
            _median(last, P99),
            "ok" if money.conserved else "WRONG",
        )
        rows.append(row)
    title = (
        f"{accounts}: {ACCOUNTS[accounts]:,} accounts, transfers/s by workers; trips and p99 with "
        f"{most}"
    )
    groups = [durability_of(row[0]).value for row in rows]
    for line in _table(title, columns, rows, groups):
        yield style.ERROR(line) if "WRONG" in line else line


def _median(summary: Summary | None, metric: Metric) -> str:
    return metric.show(summary.median(metric) if summary else None)


def _notes(summaries: Summaries) -> Iterator[str]:
    """The small print of the tables."""
    if summaries:
        yield f"Methods: {named_methods(name for _, _, name in summaries)}."
        yield (
            "trips: round trips to Redis for a transfer; - where none is made. Compare rates only "
            "within a group: the groups differ in what survives a crash."
        )
    kinds = {STRATEGIES[name].kind for _, _, name in summaries if name in STRATEGIES}
    if Kind.ROWS in kinds:
        yield ROWS_NOTE


def _table(
    title: str, columns: Cells, rows: Sequence[Cells], groups: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a title, aligned columns, and an empty line.

    `groups` names the group of each row, above its first one.
    """
    shown = [TableColumn(name, is_number=name not in _WORDS) for name in columns]
    lines = drawn(shown, rows)
    yield title
    yield f"  {lines[0]}"
    above = ""
    for line, group in zip_longest(lines[1:], groups, fillvalue=""):
        if group != above:
            yield f" {group}"
        above = group
        yield f"  {line}"
    yield ""


def steps(plan: Plan) -> Iterator[str]:
    """Yield what each step of a plan measures, in a few words."""
    for step in plan.steps():
        if isinstance(step, TableTurn):
            yield f"Table 11.2 {step.clients:>2} {step.lock}"
        else:
            yield f"{step.round}/{plan.rounds} {step.accounts} {step.workers:>2} {step.strategy}"
