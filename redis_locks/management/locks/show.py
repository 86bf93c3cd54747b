"""`manage.py locks show`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from redis_locks import inspection
from redis_locks.inspection import LockInfo
from redis_locks.management.locks.console import Console, fail
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.verb import Verb
from redis_locks.values.text import duration, printable, shorten

_WHO = ("mode", "host", "pid", "unit", "label", "token")
_COLUMNS = ("role", *_WHO, "seconds", "lease_left", "fencing_token")


def find(name: str, using: str | None) -> LockInfo:
    """Return the lock, or end the command because nobody holds it or waits for it."""
    lock = inspection.lock(name, using=using)
    if lock is None:
        fail(f"Nobody holds lock '{printable(name)}' or waits for it.")
    return lock


class Show(Verb):
    """One lock, its holders and its queue."""

    name = "show"
    help = "Show one lock, its holders and its queue."

    def arguments(self, parser: CommandParser) -> None:
        """Add the name."""
        parser.add_argument("name", help="the name of the lock")

    def run(self, console: Console, **options: Any) -> None:
        """Print everything that is known of the lock."""
        lock = find(options["name"], options["using"])
        report = Report(asdict(lock), _COLUMNS, _rows(lock), lambda width: lines(lock, width))
        console.report(report, options["format"])


def _rows(lock: LockInfo) -> list[Row]:
    holders: list[Row] = [
        {
            "role": "holder",
            "seconds": holder.held_for,
            "lease_left": holder.lease_left,
            "fencing_token": holder.fencing_token,
            **{field: getattr(holder, field) for field in _WHO},
        }
        for holder in lock.holders
    ]
    waiters: list[Row] = [
        {
            "role": "waiter",
            "seconds": waiter.waited,
            "lease_left": None,
            "fencing_token": None,
            **{field: getattr(waiter, field) for field in _WHO},
        }
        for waiter in lock.waiters
    ]
    return holders + waiters


def lines(lock: LockInfo, width: int | None) -> Iterator[str]:
    """Return all that is known of one lock; `width` None does not shorten lines."""
    yield f"Lock {printable(lock.name)} ({', '.join(lock.modes)})"
    if not lock.holders:
        yield "Nobody holds it."
    for holder in lock.holders:
        yield f"Held by {printable(str(holder))}"
        if len(lock.modes) > 1:
            yield f"  mode           {holder.mode}"
        yield f"  held for       {duration(holder.held_for)}"
        yield f"  lease left     {duration(holder.lease_left)}"
        yield f"  fencing token  {holder.fencing_token}"
        yield f"  token          {printable(holder.token)}"
    if not lock.waiting:
        yield "Nobody waits for it."
        return
    yield f"Queue ({lock.waiting} waiting)"
    for place, waiter in enumerate(lock.waiters, 1):
        who = printable(str(waiter))
        yield shorten(f"  {place:>3}  {duration(waiter.waited):>6}  {waiter.mode}  {who}", width)
    if lock.waiting > len(lock.waiters):
        yield f"       and {lock.waiting - len(lock.waiters)} more"
