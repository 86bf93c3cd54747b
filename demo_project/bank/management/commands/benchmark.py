"""``manage.py benchmark``: these locks and others, measured on a server."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any, NoReturn

import redis
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from demo_project.bank.compare.gate import Verdict, judge
from demo_project.benchmark.conditions import one_server
from demo_project.benchmark.figures import (
    BOOK_SECONDS,
    ORIGINAL,
    Comparison,
    Figures,
    Turn,
    compare,
    counts,
)
from demo_project.benchmark.measurement import Contest, KeysInTheWay, measure
from demo_project.benchmark.pool import WorkerError
from demo_project.benchmark.progress import progress
from demo_project.benchmark.subjects import SUBJECTS, USUAL
from redis_locks import LockBackendError, LockError, LockNotAvailable
from redis_locks.connections.backends import backend_for
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.verb import number
from redis_locks.testing.server import EmbeddedServer, ServerError
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


class Command(BaseCommand):
    """Table 11.2 of "Redis in Action", measured here."""

    help = (
        'Measure Table 11.2 of "Redis in Action". Clients are processes that take and release one '
        "lock. The locks are the book's two, one that needs no script (SET NX PX, then DELEX or "
        "DELIFEQ), redis-py's, python-redis-lock's and ours, in turn. +/- compares the acquires "
        "with those of the original lock, turn by turn. FAIRNESS is 1 if all clients got the same. "
        "COMMANDS counts the commands for each acquire. The server is the one that --using or "
        "REDIS_URL names, or else one of its own. Do not run this on a server in production."
    )
    # The system checks need a server.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what is measured, on which server, and for how long."""
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
        parser.add_argument(
            "--using", help="the server: a name in SERVERS, a CACHES alias or a URL"
        )
        output = parser.add_mutually_exclusive_group()
        for kind in ("json", "csv"):
            output.add_argument(f"--{kind}", dest="format", action="store_const", const=kind)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Measure, with a bar on a terminal, and print a row per lock and number of clients."""
        console = Console(self.stdout, self.stderr, self.style, force_color=options["force_color"])
        try:
            with _server(options["using"]) as using:
                self._run(console, using, **options)
        except (ImproperlyConfigured, LockError, KeysInTheWay, ServerError, WorkerError) as error:
            raise CommandError(printable(str(error))) from error

    def _run(self, console: Console, server: str, **options: Any) -> None:
        plan = Contest(
            _subjects(console, options["only"], server),
            tuple(dict.fromkeys(options["clients"])),
            options["seconds"],
            server,
        )
        measured = _measure(console, plan)
        compared = compare(measured, plan.seconds)
        rows: list[Row] = [asdict(row) for row in compared]
        report = Report(rows, _COLUMNS, rows, lambda width: _text(plan, console, compared, width))
        console.report(report, options["format"])


@contextmanager
def _server(using: str | None) -> Iterator[str]:
    """Have the server that is measured while the block runs."""
    if using:
        yield using
        return
    with EmbeddedServer() as server:
        yield server.url


def _subjects(console: Console, only: Sequence[str] | None, using: str) -> Sequence[str]:
    """Return what is to be measured: what the caller chose, or the usual.

    Of the usual, a lock is left out that is not installed, or that the server cannot run.
    """
    wanted = tuple(dict.fromkeys(only or USUAL))
    reasons = {key: _missing(key, using) for key in wanted}
    missing = {key: reason for key, reason in reasons.items() if reason}
    for key, reason in missing.items():
        if only:
            msg = f"{key} cannot be measured: {reason} Leave it out of --only."
            raise CommandError(msg)
        console.note(f"{key} is left out: {reason}")
    return [key for key in wanted if key not in missing]


def _missing(key: str, using: str) -> str:
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
            _ended_by_signals(),
            progress(console, len(plan.turns)) as advance,
        ):
            return measure(
                plan, lambda turn: advance(f"{_number(turn[1])}: {SUBJECTS[turn[0]].label}")
            )
    except LockNotAvailable as error:
        msg = "Another benchmark runs on this server: wait until it has ended."
        raise CommandError(msg) from error


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the block with SystemExit(128 + number), so it can clear up."""

    def end(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    previous = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


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
                found = _judge(row, rows)
                yield from (shorten(line, width) for line in _lines(row, found))
    yield ""
    yield shorten(
        "+/-: beside the original lock. = no difference; ? not decided: take more seconds.", width
    )


def _judge(row: Comparison, rows: Sequence[Comparison]) -> Verdict:
    """What the turns of a lock and of the original say."""
    turns = (
        dict(enumerate(other.rounds))
        for other in rows
        if (other.lock, other.clients) == (ORIGINAL, row.clients)
    )
    return judge(dict(enumerate(row.rounds)), next(turns, {})).verdict


def _lines(row: Comparison, found: Verdict) -> Iterator[str]:
    signs = {Verdict.NO_DIFFERENCE: "=", Verdict.NOT_DECIDED: "?"}
    tries, acquires, change = counts(row.tries, row.acquires, row.percent)
    commands = row.commands_per_acquire
    yield _line(
        SUBJECTS[row.lock].label,
        tries,
        acquires,
        "" if row.lock == ORIGINAL or row.percent is None else signs.get(found, change),
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
