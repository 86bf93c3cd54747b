"""`manage.py locks release`, `cancel` and `drain`: an operator ends holds and waits."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from redis_locks import inspection
from redis_locks.inspection import HolderInfo, LockInfo, Parties, WaiterInfo, audit
from redis_locks.inspection.story import runs
from redis_locks.management.locks.console import Console, fail
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.show import find
from redis_locks.management.locks.verb import NAME, Argument, Verb
from redis_locks.values.text import duration, printable, shorten

_WHO = ("lock", "mode", "host", "pid", "unit", "label", "token")
_MOST_NAMED = 3
_MOST_HOSTS = 10

_DONE = ("Released", "Cancelled", "Ended")
_PLANNED = ("Would release", "Would cancel", "Would end")
"""What the lines of holds, of waits and of their number begin with."""


_CONSENT = (
    Argument(
        "--reason",
        default="",
        metavar="TEXT",
        help="why, for the log: the logger redis_locks.audit tells who ended what",
    ),
    Argument("-y", "--yes", action="store_true", help="do not ask"),
)
"""The arguments of verbs that end holds or waits of others: these ask first, and log who did it."""


def _deed(options: dict[str, Any]) -> audit.Deed:
    return audit.Deed(audit.operator(), options["reason"], options["using"])


def _host(text: str) -> str:
    if not text:
        raise ArgumentTypeError("the host must not be empty")
    return text


class Release(Verb):
    """Force-release."""

    name = "release"
    help = "End the hold of a lock and hand it on."
    examples = ("release account:17", "release account:17 --yes --reason 'stuck since 3:05'")
    arguments = (NAME, *_CONSENT)

    def run(self, console: Console, **options: Any) -> None:
        """End the holds of one lock, those that were shown when asking."""
        lock = find(options["name"], options["using"])
        name, shown = lock.name, printable(lock.name)
        if not lock.holders:
            fail(f"Nobody holds lock '{shown}'. It has {_waiters(lock)}.")
        by = _named(lock.holders)
        if not options["yes"]:
            question = f"Release lock '{shown}' held by {by}? {_successor(lock)}"
            console.confirm(question, "release", "released")
        ended, fencing_token = _deed(options).force_release(name, lock.holders)
        if not ended:
            fail(f"Lock '{shown}' is no longer held by {by}; nothing was released.")
        text = (
            f"Released lock '{shown}', which was held by {_named(ended)}. "
            f"Fencing tokens below {fencing_token} are overtaken."
        )
        row: Row = {"name": name, "released": len(ended), "fencing_token": fencing_token}
        console.report(Report.of(row, text), options["format"])
        console.note(
            "The holder learns of it at once, or at its next renewal if it cannot be told."
        )


class Cancel(Verb):
    """End waits."""

    name = "cancel"
    help = "End the waits for a lock; each waiter gets an error at once."
    examples = ("cancel account:17", "cancel account:17 TOKEN --yes --reason 'client is gone'")
    arguments = (
        NAME,
        Argument(
            "token", nargs="?", help="the waiter, as `show NAME --json` prints it; without: all"
        ),
        *_CONSENT,
    )

    def run(self, console: Console, **options: Any) -> None:
        """End the waits that were shown when asking."""
        token, lock = options["token"], find(options["name"], options["using"])
        name, shown = lock.name, printable(lock.name)
        waiters = [waiter for waiter in lock.waiters if token in (None, waiter.token)]
        if not waiters:
            fail(f"Nobody waits for lock '{shown}'" + (" with this token." if token else "."))
        who = _named(waiters)
        if not options["yes"]:
            console.confirm(f"Cancel the wait of {who} for lock '{shown}'?", "cancel", "cancelled")
        ended = _deed(options).cancel(name, waiters)
        if not ended:
            fail(f"Lock '{shown}' is no longer waited for by {who}; nothing was cancelled.")
        text = f"Cancelled {_counted(ended, 'wait')} for lock '{shown}'."
        console.report(Report.of({"name": name, "cancelled": len(ended)}, text), options["format"])


class Drain(Verb):
    """The end of all that one host has."""

    name = "drain"
    help = "End all holds and waits of a host that is gone or taken out of service."
    examples = ("drain --host web-3 --dry-run", "drain --host web-3 --reason 'web-3 is gone'")
    details = "Stop the processes of the host first: they may take locks again at once."
    arguments = (
        Argument("--host", required=True, type=_host, help="the host, as `list` shows it"),
        *_CONSENT,
        Argument("-n", "--dry-run", action="store_true", help="end nothing, show what would be"),
    )

    def run(self, console: Console, **options: Any) -> None:
        """End the holds and waits that the host has by then, and say which."""
        host, using, dry_run = options["host"], options["using"], options["dry_run"]
        if dry_run or not options["yes"]:
            ended = inspection.drain(host, using=using, dry_run=True)
            _require_some(ended, host, using)
        if not dry_run:
            if not options["yes"]:
                question = f"End {_summed_up(ended)} of host '{printable(host)}'?"
                console.confirm(question, "drain", "ended")
            ended = _deed(options).drain(host)
            _require_some(ended, host, using)
        rows = [
            {"ended": kind, **{field: getattr(party, field) for field in _WHO}}
            for kind, parties in (("hold", ended.holders), ("wait", ended.waiters))
            for party in parties
        ]
        document = {"host": host, "dry_run": dry_run, **asdict(ended)}
        texts = _PLANNED if dry_run else _DONE
        report = Report(
            document, ("ended", *_WHO), rows, lambda width: _lines(host, ended, width, texts)
        )
        console.report(report, options["format"])
        if ended.holders and not dry_run:
            console.note(
                "The holders learn of it at once, or at their next renewal if they cannot be told."
            )


def _named(parties: Sequence[HolderInfo] | Sequence[WaiterInfo]) -> str:
    """Return the first three of these, and how many more there are."""
    who = printable("; ".join(map(str, parties[:_MOST_NAMED])))
    more = len(parties) - _MOST_NAMED
    return f"{who} and {more} more" if more > 0 else who


def _successor(lock: LockInfo) -> str:
    if not lock.waiters:
        return "Nobody waits for it."
    first = lock.waiters[0]
    return f"{_waiters(lock)}; next: {runs(first)}, waiting for {duration(first.waited)}."


def _waiters(lock: LockInfo) -> str:
    return f"{lock.waiting} waiter" if lock.waiting == 1 else f"{lock.waiting} waiters"


def _counted(parties: Sequence[object], what: str) -> str:
    return f"{len(parties)} {what}{'' if len(parties) == 1 else 's'}"


def _summed_up(ended: Parties) -> str:
    return f"{_counted(ended.holders, 'hold')} and {_counted(ended.waiters, 'wait')}"


def _lines(host: str, ended: Parties, width: int | None, texts: tuple[str, str, str]) -> list[str]:
    of_holds, of_waits, of_all = texts
    lines = [f"{of_holds} lock '{each.lock}': {each}" for each in ended.holders]
    lines += [f"{of_waits} the wait for lock '{each.lock}': {each}" for each in ended.waiters]
    summary = f"{of_all} {_summed_up(ended)} of host '{printable(host)}'."
    return [*(shorten(printable(line), width) for line in lines), summary]


def _require_some(ended: Parties, host: str, using: str | None) -> None:
    """End the command if the host has nothing to end."""
    if ended.holders or ended.waiters:
        return
    hosts = [known for known in inspection.parties(using=using).hosts if known != host]
    others = printable(", ".join(hosts[:_MOST_HOSTS])) or "none"
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    fail(
        f"Host '{printable(host)}' holds no lock and waits for none. Hosts that do: {others}{more}."
    )
