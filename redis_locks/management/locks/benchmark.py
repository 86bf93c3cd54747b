"""`manage.py locks benchmark`."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import redis
from django.core.management.base import CommandParser

from redis_locks.benchmark.conditions import one_server
from redis_locks.benchmark.figures import BOOK_SECONDS, Comparison, Figures, Turn, compare, counts
from redis_locks.benchmark.measurement import Contest, KeysInTheWay, measure
from redis_locks.benchmark.pool import WorkerError
from redis_locks.benchmark.subjects import SUBJECTS, USUAL
from redis_locks.connections.backends import backend_for
from redis_locks.exceptions import LockBackendError, LockLost, LockNotAvailable
from redis_locks.management.locks.console import BUSY, Console, fail
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.unix_signals import ended_by
from redis_locks.management.locks.verb import Verb, number
from redis_locks.values.text import duration, pad, printable, shorten

_MOST_CLIENTS = 100
_CLIENTS = (1, 2, 5, 10)
# What each turn found is a list, which a table has no place for.
_COLUMNS = tuple(field.name for field in fields(Comparison) if field.name != "rounds")
_HEADER = ("TRIES", "ACQUIRES", "+/-", "FAIRNESS", "P99 MS", "COMMANDS")
_WIDTHS = (9, 9, 7, 8, 8, 8)
_NAME = max(len(subject.label) for subject in SUBJECTS.values())

_seconds = number(0.01, 3600, float, "a number of seconds from 0.01 to 3600")
_clients = number(1, _MOST_CLIENTS, int, f"a whole number from 1 to {_MOST_CLIENTS}")


class Benchmark(Verb):
    """Table 11.2 of "Redis in Action", measured here."""

    name = "benchmark"
    help = "Compare the speed of this lock and others on your server."
    examples = ("benchmark",)
    details = (
        'This measures Table 11.2 of "Redis in Action". Clients are processes that take and release one lock. '
        "The locks are the book's two, one that needs no script (SET NX PX, then DELEX or DELIFEQ), redis-py's, "
        "python-redis-lock's and ours, in turn. "
        "+/- compares the acquires with those of the original lock. FAIRNESS is 1 if all clients got the same. "
        "COMMANDS counts the commands for each acquire. Do not run this on a server in production."
    )

    def arguments(self, parser: CommandParser) -> None:
        """Add what is measured, and for how long."""
        parser.add_argument(
            "--seconds",
            type=_seconds,
            default=BOOK_SECONDS,
            metavar="SECONDS",
            help="how long each lock is measured with each number of clients; default: %(default)g",
        )
        parser.add_argument(
            "--clients",
            type=_clients,
            nargs="+",
            default=_CLIENTS,
            metavar="N",
            help=f"how many processes; default: {' '.join(map(str, _CLIENTS))}",
        )
        parser.add_argument(
            "--only",
            nargs="+",
            choices=SUBJECTS,
            metavar="LOCK",
            help=f"these locks, of {', '.join(SUBJECTS)}; default: {' '.join(USUAL)}",
        )

    def run(self, console: Console, **options: Any) -> None:
        """Measure, with a bar on a terminal, and print a row per lock and number of clients."""
        plan = Contest(
            _subjects(console, options["only"], options["using"]),
            tuple(dict.fromkeys(options["clients"])),
            options["seconds"],
            options["using"],
        )
        measured = _measure(console, plan)
        compared = compare(measured, plan.seconds)
        rows: list[Row] = [asdict(row) for row in compared]
        report = Report(rows, _COLUMNS, rows, lambda width: _text(plan, console, compared, width))
        console.report(report, options["format"])


def _subjects(console: Console, only: Sequence[str] | None, using: str | None) -> Sequence[str]:
    """Return what is to be measured: what was asked for, or else what is installed and can run on the server."""
    wanted = tuple(dict.fromkeys(only or USUAL))
    reasons = {key: _missing(key, using) for key in wanted}
    missing = {key: reason for key, reason in reasons.items() if reason}
    for key, reason in missing.items():
        if only:
            msg = f"{key} cannot be measured: {reason} Leave it out of --only."
            raise ValueError(msg)
        console.note(f"{key} is left out: {reason}")
    return [key for key in wanted if key not in missing]


def _missing(key: str, using: str | None) -> str:
    subject = SUBJECTS[key]
    if not subject.is_installed:
        return f"{key} is not installed."
    try:
        return subject.missing(one_server(using))
    except redis.RedisError as error:
        msg = f"{backend_for(using).description} cannot be reached: {error}"
        raise LockBackendError(msg) from error


def _measure(console: Console, plan: Contest) -> Mapping[Turn, Figures]:
    console.note(
        f"This loads {printable(backend_for(plan.using).description)} with up to "
        f"{max(plan.clients)} clients for {duration(len(plan.turns) * plan.seconds / plan.slices)}."
    )
    try:
        with (
            ended_by(signal.SIGINT, signal.SIGTERM),
            console.progress(len(plan.turns)) as advance,
        ):
            return measure(
                plan, lambda turn: advance(f"{_number(turn[1])}: {SUBJECTS[turn[0]].label}")
            )
    except LockNotAvailable:
        fail("Another benchmark runs on this server: wait until it has ended.", BUSY)
    except (KeysInTheWay, WorkerError, LockLost) as error:
        fail(printable(str(error)))


def _text(
    plan: Contest, console: Console, rows: Sequence[Comparison], width: int | None
) -> Iterator[str]:
    for clients in plan.clients:
        if clients != plan.clients[0]:
            yield ""
        title = _line(f"{_number(clients)}, {plan.seconds:g} s each", *_HEADER)
        yield console.style.MIGRATE_LABEL(shorten(title, width))
        for row in rows:
            if row.clients == clients:
                yield from (shorten(line, width) for line in _lines(row))


def _lines(row: Comparison) -> Iterator[str]:
    commands = row.commands_per_acquire
    yield _line(
        SUBJECTS[row.lock].label,
        *counts(row.tries, row.acquires, row.percent),
        f"{row.fairness:.3f}",
        f"{row.p99_wait * 1000:.2f}",
        "" if commands is None else f"{commands:.2f}",
    )
    if row.book_tries is not None:
        book = counts(row.book_tries, row.book_acquires, row.book_percent)
        yield _line(f"  the book, in {BOOK_SECONDS:g} s", *book)


def _line(name: str, *cells: str) -> str:
    widths = _WIDTHS[: len(cells)]
    padded = [pad(cell, width, right=True) for cell, width in zip(cells, widths, strict=True)]
    return f"{pad(name, _NAME)} {' '.join(padded)}".rstrip()


def _number(clients: int) -> str:
    return f"{clients} {'client' if clients == 1 else 'clients'}"
