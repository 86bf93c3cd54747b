"""What a verb found, in each format: for people, for pipes, for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from redis_locks.values.text import printable

FOR_PROGRAMS = ("json", "jsonl", "csv")
FORMATS = ("table", "plain", *FOR_PROGRAMS)

Row = dict[str, str | int | float | None]


@dataclass(frozen=True)
class Report:
    """One answer. Times are in seconds, and nothing is shortened, but in `text`.

    Attributes:
        document: The answer as JSON; a list has one line each in jsonl.
        columns: The names of the columns of `rows`.
        rows: The answer as a table for programs.
        text: The answer for people, line by line, given the columns of the terminal;
            None means that lines may have any length.
    """

    document: object
    columns: Sequence[str]
    rows: Sequence[Row]
    text: Callable[[int | None], Iterable[str]]

    @classmethod
    def of(cls, row: Row, text: str) -> Report:
        """Return the answer that has one row, and one line for people."""
        return cls(row, tuple(row), [row], lambda _: [text])

    @classmethod
    def of_all(
        cls, kind: type[Any], records: Iterable[Any], text: Callable[[int | None], Iterable[str]]
    ) -> Report:
        """Return the answer that has a row per record, all instances of the dataclass `kind`."""
        rows = [asdict(record) for record in records]
        return cls(rows, tuple(field.name for field in fields(kind)), rows, text)

    def lines(self, wanted: str, columns: int | None) -> list[str]:
        """Return the answer in the format `wanted`, one of `FORMATS`."""
        if wanted == "json":
            return [json.dumps(self.document, indent=2)]
        if wanted == "jsonl":
            records = self.document if isinstance(self.document, list) else [self.document]
            return [json.dumps(record) for record in records]
        if wanted == "table":
            return list(self.text(columns))
        cells = [[_cell(row[column]) for column in self.columns] for row in self.rows]
        table = [list(self.columns), *cells]
        if wanted == "plain":
            return ["\t".join(row) for row in table]
        return _csv(table)


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"  # seconds, mostly, and some are few microseconds
    return "" if value is None else printable(str(value))


def _csv(table: list[list[str]]) -> list[str]:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(table)
    return written.getvalue().splitlines()
