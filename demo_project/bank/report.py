"""The comparison in a terminal: tables, what they mean, and a progress bar where somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import TextIO

from demo_project.benchmark.subjects import TWO_COMMANDS

from .compare.book import NO_FOURTH_LOCK, TableTurn, rows_of, sentences_of
from .compare.plan import ACCOUNTS, Cell, Plan
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
BOOK_NOTE = "+/-: acquires beside the original lock. = no difference; ? not decided, as the rounds disagree or are too few."
_WORDS = {"strategy", "money", "lock"}
LINE = 80
MOST_COLUMNS = 4
"""Columns of transfers per second that fit a line of 80 characters."""
_PLAIN_BAR_COLUMNS = 34

Cells = tuple[str, ...]


def print_report(stream: TextIO, comparison: Comparison, *, color: bool) -> None:
    """A table for each kind of accounts, the verdict, and Table 11.2 if it was measured."""
    summaries = summarise_rounds(comparison.measurements.all())
    book = [row.cells for row in rows_of(comparison.book_table)]
    if book:
        _print_table(stream, BOOK_TITLE, BOOK_COLUMNS, book, color=color)
        notes = [BOOK_NOTE, *sentences_of(comparison.book_table)]
        if TWO_COMMANDS not in {row[0] for row in book}:
            notes.append(NO_FOURTH_LOCK)
        stream.writelines(fill(note, LINE) + "\n" for note in notes)
        stream.write("\n")
    for accounts in dict.fromkeys(kind for kind, _, _ in summaries):
        table = {key[1:]: found for key, found in summaries.items() if key[0] == accounts}
        _print_accounts(stream, accounts, table, color=color)
    stream.writelines(fill(note, LINE) + "\n\n" for note in _notes(summaries))
    stream.writelines(f"{line.short}\n" for line in verdict_of(summaries))


def _print_accounts(
    stream: TextIO, accounts: str, table: dict[tuple[int, str], Summary], *, color: bool
) -> None:
    workers = sorted({count for count, _ in table})
    shown = [*workers[: MOST_COLUMNS - 1], *workers[MOST_COLUMNS - 1 :][-1:]]
    most = shown[-1]
    columns = ("strategy", "trips", *map(str, shown), "p99 ms", "money")
    rows, wrong = [], []
    for name in dict.fromkeys(name for _, name in table):
        found = [table.get((count, name)) for count in shown]
        last = table.get((most, name))
        money = money_of(
            row for (_, each), one in table.items() if each == name for row in one.rows
        )
        cells = (
            name,
            _median(last, ROUND_TRIPS),
            *(_median(one, THROUGHPUT) for one in found),
            _median(last, P99),
            "ok" if money.conserved else "WRONG",
        )
        rows.append(cells)
        wrong += [] if money.conserved else [cells]
    title = f"{accounts}: {ACCOUNTS[accounts]:,} accounts, transfers/s by workers; trips and p99 with {most}"
    groups = [durability_of(row[0]).value for row in rows]
    _print_table(stream, title, columns, rows, wrong, groups, color=color)


def _median(summary: Summary | None, metric: Metric) -> str:
    return metric.show(summary.median(metric) if summary else None)


def _notes(summaries: Summaries) -> Iterator[str]:
    """The small print of the tables."""
    if summaries:
        yield f"Methods: {named_methods(name for _, _, name in summaries)}."
        yield (
            "trips: round trips to Redis for a transfer; - where none is made. Compare rates only within a "
            "group: the groups differ in what survives a crash."
        )
    kinds = {STRATEGIES[name].kind for _, _, name in summaries if name in STRATEGIES}
    if Kind.ROWS in kinds:
        yield ROWS_NOTE


def _print_table(
    stream: TextIO,
    title: str,
    columns: Cells,
    rows: Sequence[Cells],
    wrong: Collection[Cells] = (),
    groups: Sequence[str] = (),
    *,
    color: bool,
) -> None:
    """A drawn table on a terminal, with the wrong rows in red; aligned plain columns anywhere else.

    ``groups`` names the group of each row, whose name stands above its first row.
    """
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    first_of = {name: index for index, name in reversed(list(enumerate(groups)))}
    heading = {index: name for name, index in first_of.items()}
    if stream.isatty():
        # Not needed before the site is served.
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left", padding=0)
        for name, width in zip(columns, widths, strict=True):
            justify = "left" if name in _WORDS else "right"
            table.add_column(name, justify=justify, min_width=width)  # type: ignore[arg-type]
        for index, row in enumerate(rows):
            if index in heading and len(first_of) > 1:
                table.add_section()
            table.add_row(*row, style="red" if row in wrong else None)
        Console(file=stream, no_color=not color).print(table)
        return
    stream.write(title + "\n")
    for index, row in enumerate((columns, *rows), -1):
        if index in heading:
            stream.write(f" {heading[index]}\n")
        first, *middle = (
            cell.ljust(width) if name in _WORDS else cell.rjust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        )
        stream.write("  ".join((f"  {first}", *middle)).rstrip() + "\n")
    stream.write("\n")


@contextmanager
def counting_bar(
    stream: TextIO, total: int, first: str, *, color: bool
) -> Iterator[Callable[..., None]]:
    """Yield what to call after each step, if need be with the ``description`` of the next one.

    It moves a bar on a terminal and does nothing elsewhere.
    """
    if not stream.isatty():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(None),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = Console(file=stream, no_color=not color)
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        task = progress.add_task(first, total=total)

        def advance(description: str | None = None) -> None:
            progress.update(task, advance=1, description=description)

        yield advance


@contextmanager
def progress_bar(stream: TextIO, plan: Plan, *, color: bool) -> Iterator[Callable[[], None]]:
    """Yield what to call after each measurement of a plan; the bar says what is measured."""
    steps = plan.steps()
    first = _describe(next(steps), plan)
    with counting_bar(stream, len(plan), first, color=color) as advance:

        def measured() -> None:
            upcoming = next(steps, None)
            advance(description=_describe(upcoming, plan) if upcoming else "Done")

        yield measured


def _describe(step: TableTurn | Cell, plan: Plan) -> str:
    if isinstance(step, TableTurn):
        text = f"Table 11.2 {step.clients:>2} {step.lock}"
    else:
        text = f"{step.round}/{plan.rounds} {step.accounts} {step.workers:>2} {step.strategy}"
    return text[:_PLAIN_BAR_COLUMNS].ljust(_PLAIN_BAR_COLUMNS)
