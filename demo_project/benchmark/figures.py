"""What was measured of one lock with so many clients, and what the book measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

Turn = tuple[str, int]
"""A lock, by its key, and a number of clients."""

BOOK: Mapping[Turn, tuple[int, int]] = {
    ("original", 1): (31_359, 31_359),
    ("original", 2): (30_085, 22_507),
    ("original", 5): (47_694, 19_695),
    ("original", 10): (71_917, 14_361),
    ("lua", 1): (44_494, 44_494),
    ("lua", 2): (50_404, 42_199),
    ("lua", 5): (70_807, 40_826),
    ("lua", 10): (96_871, 33_990),
}
"""Table 11.2 of "Redis in Action": tries and acquires in 10 s, by lock and number of clients."""

BOOK_SECONDS = 10.0
"""For how long the book measured each."""

ORIGINAL = "original"
"""The lock that the book compares with."""


@dataclass(frozen=True)
class WorkerReport:
    """What one client process did in one slice.

    Attributes:
        tries: How often it asked for the lock.
        waits_us: How long it waited for each acquire, in microseconds.
    """

    tries: int
    waits_us: Sequence[int]


@dataclass(frozen=True)
class Figures:
    """One lock with so many clients.

    Attributes:
        tries: How often all clients together asked for the lock.
        acquires: How often they got it.
        fairness: Jain's index of the clients' acquires.
        p99_wait: Seconds that 99 % of all waits did not exceed.
        commands_per_acquire: Commands that clients sent, by the server's count; None without an
            acquire.
        rounds: How often they got it in each turn.
    """

    tries: int
    acquires: int
    fairness: float
    p99_wait: float
    commands_per_acquire: float | None
    rounds: Sequence[int] = ()


def summarise(slices: Sequence[Sequence[WorkerReport]], commands: int) -> Figures:
    """Put together what the clients did in each slice, and how many commands they sent in all."""
    clients = list(zip(*slices, strict=True))
    acquires = [sum(len(report.waits_us) for report in reports) for reports in clients]
    reports = [report for slice_ in slices for report in slice_]
    waits = sorted(wait for report in reports for wait in report.waits_us)
    return Figures(
        tries=sum(report.tries for report in reports),
        acquires=sum(acquires),
        fairness=jain_index(acquires),
        p99_wait=percentile(waits, 99) / 1e6,
        commands_per_acquire=commands / len(waits) if waits else None,
        rounds=[sum(len(report.waits_us) for report in slice_) for slice_ in slices],
    )


@dataclass(frozen=True)
class Comparison:
    """The figures of one lock with so many clients, beside the original lock's and the book's.

    Attributes:
        lock: The key of the lock.
        clients: How many processes took it.
        seconds: For how long.
        tries: As in `Figures`, like all that is not said here.
        percent: By how many percent it was acquired more often than the original lock; None
            if that was not measured.
        book_tries: Tries in 10 s as the book has them; None for what is not in the book.
        book_acquires: Likewise.
        book_percent: Likewise.
    """

    lock: str
    clients: int
    seconds: float
    tries: int
    acquires: int
    percent: float | None
    book_tries: int | None
    book_acquires: int | None
    book_percent: float | None
    fairness: float
    p99_wait: float
    commands_per_acquire: float | None
    rounds: Sequence[int]


def compare(measured: Mapping[Turn, Figures], seconds: float) -> list[Comparison]:
    """Put what was measured beside the original lock and the book."""
    rows = []
    for (lock, clients), figures in measured.items():
        original = measured.get((ORIGINAL, clients))
        book_tries, book_acquires = BOOK.get((lock, clients), (None, None))
        _, book_original = BOOK.get((ORIGINAL, clients), (None, None))
        percent = _change(figures.acquires, original.acquires if original else None)
        rows.append(
            Comparison(
                lock=lock,
                clients=clients,
                seconds=seconds,
                percent=percent,
                book_tries=book_tries,
                book_acquires=book_acquires,
                book_percent=_change(book_acquires, book_original),
                **asdict(figures),
            )
        )
    return rows


def counts(tries: int | None, acquires: int | None, percent: float | None) -> tuple[str, str, str]:
    """Return the cells of a table for people; empty for what is not known."""
    return (
        "" if tries is None else f"{tries:,}",
        "" if acquires is None else f"{acquires:,}",
        "" if percent is None else f"{percent:+.0f}%",
    )


def _change(acquires: int | None, original: int | None) -> float | None:
    if acquires is None or not original:
        return None
    return 100 * (acquires / original - 1)


def percentile(ascending: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of all values do not exceed; 0 if there are none."""
    if not ascending:
        return 0.0
    return ascending[max(0, math.ceil(len(ascending) * percent / 100) - 1)]


def jain_index(shares: Iterable[float]) -> float:
    """Return Jain's fairness index: 1 if all are equal, 1/n if one has all, 0 if all are 0."""
    all_shares = list(shares)
    squares = sum(share * share for share in all_shares)
    return sum(all_shares) ** 2 / (len(all_shares) * squares) if squares else 0.0
