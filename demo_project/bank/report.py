"""The comparison in a terminal: a table and a progress bar, or plain lines where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .models import Measurement

COLUMNS = (
    "accounts",
    "workers",
    "strategy",
    "per s",
    "retries",
    "p50 ms",
    "p99 ms",
    "max ms",
    "Jain",
    "money",
)


def cells_of(measurement: Measurement) -> tuple[str, ...]:
    """One row of the table, as text."""
    return (
        measurement.accounts,
        str(measurement.workers),
        measurement.strategy,
        f"{measurement.transfers_per_second:,.0f}",
        f"{measurement.retries_per_transfer:.2f}",
        f"{measurement.p50_ms:.1f}",
        f"{measurement.p99_ms:.1f}",
        f"{measurement.max_ms:.0f}",
        f"{measurement.fairness:.2f}",
        describe_money(measurement),
    )


def describe_money(measurement: Measurement) -> str:
    """Whether the money was conserved, in a few words."""
    if measurement.overdrawn:
        return f"{measurement.overdrawn} overdrawn"
    if measurement.missing_cents > 0:
        return f"{measurement.missing_cents / 100:,.2f} lost"
    if measurement.missing_cents < 0:
        return f"{-measurement.missing_cents / 100:,.2f} made up"
    return "ok"


def print_table(stream: TextIO, measurements: Iterable[Measurement], *, color: bool) -> None:
    """A drawn table on a terminal; aligned plain columns anywhere else."""
    rows = [cells_of(measurement) for measurement in measurements]
    if stream.isatty():
        table = Table(*COLUMNS)
        for row in rows:
            table.add_row(*row, style=None if row[-1] == "ok" else "red")
        Console(file=stream, no_color=not color).print(table)
        return
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        stream.write("  ".join(cells).rstrip() + "\n")


@contextmanager
def progress_bar(
    stream: TextIO, total: int, *, color: bool
) -> Iterator[Callable[[Measurement], None]]:
    """Yield what to call with each measurement: it moves a bar on a terminal and does nothing elsewhere."""
    if not stream.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn())
    console = Console(file=stream, no_color=not color)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("Starting the workers", total=total)

        def advance(measurement: Measurement) -> None:
            progress.update(task, advance=1, description=str(measurement)[:34])

        yield advance
