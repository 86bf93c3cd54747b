"""The comparison in a terminal: tables, what they mean, and a progress bar where somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from textwrap import fill
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from .compare.book import TableTurn, rows_of
from .compare.findings import findings_of
from .compare.plan import Cell, Plan
from .compare.summaries import (
    FAIRNESS,
    OK,
    P50,
    P99,
    RETRIES,
    ROUND_TRIPS,
    THROUGHPUT,
    Summaries,
    Summary,
    summarise_rounds,
)
from .models import Comparison
from .strategies import ROWS_NOTE, STRATEGIES, Kind

COLUMNS = ("strategy", "per s", "±%", "retries", "trips", "p50 ms", "p99 ms", "Jain", "money")
BOOK_COLUMNS = ("lock", "clients", "tries", "acquires", "+/-", "book: tries", "acquires", "+/-")
BOOK_TITLE = 'Table 11.2 of "Redis in Action", scaled to 10 s, beside the book'
_WORDS = {"strategy", "money", "lock"}
LINE = 80
_PLAIN_BAR_COLUMNS = 34


def cells_of(summary: Summary) -> tuple[str, ...]:
    """One row of the table, as text."""
    spread = summary.spread(THROUGHPUT)
    figures = (
        metric.show(summary.median(metric)) for metric in (RETRIES, ROUND_TRIPS, P50, P99, FAIRNESS)
    )
    return (
        summary.strategy,
        THROUGHPUT.show(summary.median(THROUGHPUT)),
        "-" if spread is None else f"{spread:.0f}",
        *figures,
        str(summary.money),
    )


def print_report(stream: TextIO, comparison: Comparison, *, color: bool) -> None:
    """Medians of the rounds, a table for each number of workers, and the main findings in words."""
    summaries = summarise_rounds(comparison.measurements.all())
    book = [row.cells for row in rows_of(comparison.book_table)]
    if book:
        widths = _widths(BOOK_COLUMNS, book)
        _print_table(stream, BOOK_TITLE, BOOK_COLUMNS, book, widths, color=color)
    widths = _widths(COLUMNS, map(cells_of, summaries.values()))
    by_workers = groupby(summaries.values(), key=lambda found: (found.accounts, found.workers))
    for (accounts, workers), group in by_workers:
        title = f"{accounts} accounts, {workers} worker{'s' * (workers != 1)}"
        rows = [cells_of(found) for found in group]
        wrong = [row for row in rows if row[-1] != OK]
        _print_table(stream, title, COLUMNS, rows, widths, wrong, color=color)
    stream.writelines(fill(note, LINE) + "\n\n" for note in _notes(summaries))
    for finding in findings_of(summaries, comparison.busy_percent):
        if finding.main:
            stream.write(fill(f"- {finding.text}", LINE, subsequent_indent="  ") + "\n")


def _notes(summaries: Summaries) -> Iterator[str]:
    """The small print of the tables."""
    kinds = {STRATEGIES[name].kind for _, _, name in summaries if name in STRATEGIES}
    if Kind.ROWS in kinds:
        yield f"trips: to Redis and back, for a transfer; - where none is made. {ROWS_NOTE}"


Cells = tuple[str, ...]


def _widths(columns: Cells, rows: Iterable[Cells]) -> list[int]:
    return [max(map(len, column)) for column in zip(columns, *rows, strict=True)]


def _print_table(
    stream: TextIO,
    title: str,
    columns: Cells,
    rows: Sequence[Cells],
    widths: Sequence[int],
    wrong: Collection[Cells] = (),
    *,
    color: bool,
) -> None:
    """A drawn table on a terminal, with the wrong rows in red; aligned plain columns anywhere else."""
    if stream.isatty():
        table = Table(title=title, title_justify="left", padding=0)
        for name, width in zip(columns, widths, strict=True):
            justify = "left" if name in _WORDS else "right"
            table.add_column(name, justify=justify, min_width=width)  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*row, style="red" if row in wrong else None)
        Console(file=stream, no_color=not color).print(table)
        return
    stream.write(title + "\n")
    for row in (columns, *rows):
        first, *middle = (
            cell.ljust(width) if name in _WORDS else cell.rjust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        )
        stream.write("  ".join((f"  {first}", *middle)).rstrip() + "\n")
    stream.write("\n")


@contextmanager
def progress_bar(stream: TextIO, plan: Plan, *, color: bool) -> Iterator[Callable[[], None]]:
    """Yield what to call after each measurement: it moves a bar on a terminal and does nothing elsewhere."""
    if not stream.isatty():
        yield lambda: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(None),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = Console(file=stream, no_color=not color)
    steps = plan.steps()
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        task = progress.add_task(_describe(next(steps), plan), total=len(plan))

        def advance() -> None:
            upcoming = next(steps, None)
            description = _describe(upcoming, plan) if upcoming else "Done"
            progress.update(task, advance=1, description=description)

        yield advance


def _describe(step: TableTurn | Cell, plan: Plan) -> str:
    if isinstance(step, TableTurn):
        text = f"Table 11.2 {step.clients:>2} {step.lock}"
    else:
        text = f"{step.round}/{plan.rounds} {step.accounts} {step.workers:>2} {step.strategy}"
    return text[:_PLAIN_BAR_COLUMNS].ljust(_PLAIN_BAR_COLUMNS)
