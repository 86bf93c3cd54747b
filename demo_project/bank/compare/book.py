"""Table 11.2 of "Redis in Action" within a run: the book's two locks and ours, by the library's own benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from demo_project.bank.recorder import CannotMeasure
from redis_locks import LockNotAvailable
from redis_locks.benchmark.figures import BOOK_SECONDS, ORIGINAL, Turn, compare, counts
from redis_locks.benchmark.measurement import Contest, KeysInTheWay, measure
from redis_locks.benchmark.subjects import OURS, SUBJECTS

LOCKS = (ORIGINAL, "lua", OURS)
CLIENTS = (1, 2, 5, 10)


@dataclass(frozen=True)
class TableTurn:
    """One lock, taken by so many processes for a while."""

    lock: str
    clients: int

    def __str__(self) -> str:
        processes = "process" if self.clients == 1 else "processes"
        return f"Table 11.2: {SUBJECTS[self.lock].label}, {self.clients} {processes}"


def benchmark_of(seconds: float, url: str = "") -> Contest:
    """Return what the library is to measure: each lock with each number of processes for so many seconds.

    It measures the server at `url`, or else the bank's.
    """
    return Contest(LOCKS, CLIENTS, seconds, url or None)


def turns_of(seconds: float) -> list[TableTurn]:
    """The turns of the benchmark in the order in which they run; none for 0 seconds."""
    return [TableTurn(*turn) for turn in benchmark_of(seconds).turns] if seconds else []


def total_of(seconds: float) -> float:
    """For how many seconds the benchmark measures."""
    return seconds * len(LOCKS) * len(CLIENTS)


def measure_table(
    seconds: float, url: str, on_turn: Callable[[Turn], None], check: Callable[[], None]
) -> list[dict[str, Any]]:
    """Measure the table and return its rows in JSON's types; blocks as long as that takes.

    Args:
        seconds: As for `benchmark_of`.
        url: Likewise.
        on_turn: Called before each turn; what it raises ends the benchmark.
        check: Likewise, several times a second.

    Raises:
        CannotMeasure: Another benchmark runs on this server, or there are keys of its names.
        WorkerError: A process failed.
        LockBackendError: The server cannot be asked.
    """
    try:
        measured = measure(benchmark_of(seconds, url), on_turn, check)
    except LockNotAvailable as error:
        msg = "Another benchmark of locks runs on this server: start this again when it has ended."
        raise CannotMeasure(msg) from error
    except KeysInTheWay as error:
        raise CannotMeasure(str(error)) from error
    return [asdict(row) for row in compare(measured, seconds)]


@dataclass(frozen=True)
class TableRow:
    """One row as people read it: tries, acquires and the change against the original lock, here and in the book.

    The lock goes by its ``key`` where there is little room, and by its ``label``.
    """

    key: str
    label: str
    clients: int
    here: tuple[str, ...]
    book: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """All of it in order."""
        return (self.key, str(self.clients), *self.here, *self.book)


def rows_of(table: Iterable[Mapping[str, Any]]) -> list[TableRow]:
    """The measured rows of a run beside the book's; counts are scaled to the book's 10 s."""
    return [_row(row) for row in table]


def factors_of(table: Iterable[Mapping[str, Any]]) -> list[str]:
    """How much more often a lock was acquired than the book's first one, in a sentence for each lock; [] if unknown."""
    rows = list(table)
    return [
        sentence
        for lock in LOCKS[1:]
        for where, column in (("In the book", "book_percent"), ("Here", "percent"))
        if (sentence := _factors(rows, lock, where, column))
    ]


def _factors(rows: list[Mapping[str, Any]], lock: str, where: str, column: str) -> str:
    found = [
        f"{row[column]:+.0f} % with {row['clients']}"
        for row in rows
        if row["lock"] == lock and row[column] is not None
    ]
    if not found:
        return ""
    label = SUBJECTS[lock].label
    return f"{where} ({label}): {', '.join(found)} clients, against the original lock."


def _row(row: Mapping[str, Any]) -> TableRow:
    scale = BOOK_SECONDS / row["seconds"]
    tries, acquires = (round(row[name] * scale) for name in ("tries", "acquires"))
    label = SUBJECTS[row["lock"]].label if row["lock"] in SUBJECTS else row["lock"]
    return TableRow(
        row["lock"],
        label,
        row["clients"],
        counts(tries, acquires, row["percent"]),
        counts(row["book_tries"], row["book_acquires"], row["book_percent"]),
    )
