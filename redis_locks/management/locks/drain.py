"""`manage.py locks drain`."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from django.core.management.base import CommandParser

from redis_locks import inspection
from redis_locks.inspection import HolderInfo, Parties, WaiterInfo, audit
from redis_locks.management.locks.console import Console, fail
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.verb import Verb, add_consent
from redis_locks.values.text import printable, shorten

_WHO = ("lock", "mode", "host", "pid", "unit", "label", "token")
_COLUMNS = ("ended", *_WHO)
_MOST_HOSTS = 10
_NOBODY = Parties((), ())


_DONE = ("Released", "Cancelled", "Ended")
_PLANNED = ("Would release", "Would cancel", "Would end")
"""What the lines of holds, of waits and of their number begin with."""


class Drain(Verb):
    """The end of all that one host has."""

    name = "drain"
    help = "End all holds and waits of a host that is gone or taken out of service."
    examples = ("drain --host web-3 --dry-run", "drain --host web-3 --reason 'web-3 is gone'")
    details = "Stop the processes of the host first: they may take locks again at once."

    def arguments(self, parser: CommandParser) -> None:
        """Add the host, and the consent."""
        parser.add_argument(
            "--host", required=True, type=_host, help="the host, as `list` shows it"
        )
        add_consent(parser)
        parser.add_argument(
            "-n", "--dry-run", action="store_true", help="end nothing, show what would be"
        )

    def run(self, console: Console, **options: Any) -> None:
        """End the holds and waits that the host has by then, and say which."""
        host, using, dry_run = options["host"], options["using"], options["dry_run"]
        if not (options["yes"] or dry_run):
            theirs = inspection.drain(host, using=using, dry_run=True)
            if theirs == _NOBODY:
                _fail(host, inspection.parties(using=using))
            console.confirm(
                f"End {_counted(theirs)} of host '{printable(host)}'?", "drain", "ended"
            )
        if dry_run:
            ended = inspection.drain(host, using=using, dry_run=True)
        else:
            ended = audit.Deed(audit.operator(), options["reason"], using).drain(host)
        if ended == _NOBODY:
            _fail(host, inspection.parties(using=using))
        document = {"host": host, "dry_run": dry_run, **asdict(ended)}
        texts = _PLANNED if dry_run else _DONE
        console.report(
            Report(
                document, _COLUMNS, _rows(ended), lambda width: _text(host, ended, width, texts)
            ),
            options["format"],
        )
        if ended.holders and not dry_run:
            console.note(
                "The holders learn of it at once, or at their next renewal if they cannot be told."
            )


def _rows(ended: Parties) -> list[Row]:
    return [
        {"ended": kind, **{field: getattr(party, field) for field in _WHO}}
        for kind, parties in (("hold", ended.holders), ("wait", ended.waiters))
        for party in parties
    ]


def _text(host: str, ended: Parties, width: int | None, texts: tuple[str, str, str]) -> list[str]:
    of_holds, of_waits, of_all = texts
    lines = [f"{of_holds} lock {_line(holder)}" for holder in ended.holders]
    lines += [f"{of_waits} the wait for lock {_line(waiter)}" for waiter in ended.waiters]
    summary = f"{of_all} {_counted(ended)} of host '{printable(host)}'."
    return [*(shorten(line, width) for line in lines), summary]


def _line(party: HolderInfo | WaiterInfo) -> str:
    return printable(f"'{party.lock}': {party}")


def _counted(parties: Parties) -> str:
    return f"{_number(parties.holders, 'hold')} and {_number(parties.waiters, 'wait')}"


def _number(rows: Sequence[object], what: str) -> str:
    return f"{len(rows)} {what}{'' if len(rows) == 1 else 's'}"


def _fail(host: str, everybody: Parties) -> NoReturn:
    hosts = [known for known in everybody.hosts if known != host]
    others = printable(", ".join(hosts[:_MOST_HOSTS])) or "none"
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    fail(
        f"Host '{printable(host)}' holds no lock and waits for none. Hosts that do: {others}{more}."
    )


def _host(text: str) -> str:
    if not text:
        msg = "the host must not be empty"
        raise ArgumentTypeError(msg)
    return text
