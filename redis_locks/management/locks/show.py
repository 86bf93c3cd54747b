"""`manage.py locks show`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from redis_locks.conf.name_function import both_forms
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.queries import whole_lock
from redis_locks.inspection.story import Story, surroundings, tell
from redis_locks.management.locks.console import Console, fail
from redis_locks.management.locks.list import did_you_mean
from redis_locks.management.locks.report import Report, Row
from redis_locks.management.locks.verb import COUNT, NAME, Argument, Verb
from redis_locks.values.text import duration, printable, shorten

_MOST_WAITERS = 20
_WHO = ("mode", "host", "pid", "unit", "label", "token")
_COLUMNS = ("role", *_WHO, "seconds", "lease_left", "fencing_token")


def find(name: str, using: str | None) -> LockInfo:
    """Return the lock, with all that hold it or wait for it.

    End the command if nobody does.

    `name` is that on the server, or else that which code gives.
    """
    forms = both_forms(name)
    locks = (whole_lock(form, using=using) for form in forms)
    lock = next(filter(None, locks), None)
    if lock is None:
        called = " or ".join(f"'{printable(form)}'" for form in forms)
        fail(f"Nobody holds lock {called} or waits for it.{did_you_mean(name, using)}")
    return lock


class Show(Verb):
    """One lock: what is going on, its holders and its waiters."""

    name = "show"
    help = "Show what is going on with one lock, its holders and its waiters."
    examples = ("show account:17", "show account:17 --limit 100", "show account:17 --json")
    arguments = (
        NAME,
        Argument(
            "--limit",
            **COUNT,
            default=_MOST_WAITERS,
            help="show so many waiters; default: %(default)s",
        ),
    )

    def run(self, console: Console, **options: Any) -> None:
        """Print everything that is known of the lock."""
        name, using = options["name"], options["using"]
        lock = find(name, using)
        story = tell(lock, surroundings(lock, using=using))
        report = Report(
            {**asdict(lock), "story": story.text, "advice": story.advice},
            _COLUMNS,
            [*map(_row, lock.holders), *map(_row, lock.waiters)],
            lambda width: lines(lock, width, story, options["limit"]),
        )
        console.report(report, options["format"])


def _row(party: HolderInfo | WaiterInfo) -> Row:
    role, seconds = (
        ("holder", party.held_for) if isinstance(party, HolderInfo) else ("waiter", party.waited)
    )
    # A waiter has neither of these two.
    of_hold = {field: getattr(party, field, None) for field in ("lease_left", "fencing_token")}
    who = {field: getattr(party, field) for field in _WHO}
    return {"role": role, **who, "seconds": seconds, **of_hold}


def lines(
    lock: LockInfo, width: int | None, story: Story, most: int = _MOST_WAITERS
) -> Iterator[str]:
    """Return what people need of one lock; `width` None does not shorten lines.

    `most`: how many waiters.

    No tokens: a token is the proof of a hold, and people paste what they see into tickets.
    """
    yield f"Lock {printable(lock.name)} ({', '.join(lock.modes)})"
    for paragraph in (story.text, story.advice):
        if paragraph:
            yield from textwrap.wrap(paragraph, width) if width else [paragraph]
    for holder in lock.holders:
        yield f"Held by {printable(str(holder))}"
        if len(lock.modes) > 1:
            yield f"  mode           {holder.mode}"
        yield f"  held for       {duration(holder.held_for)}"
        yield f"  lease left     {duration(holder.lease_left)}"
        yield f"  fencing token  {holder.fencing_token}"
    if not lock.waiting:
        return
    yield f"Waiters ({lock.waiting})"
    waiters = lock.waiters[:most]
    # As in the list: where all are exclusive, that goes without saying.
    usual = all(waiter.mode == "exclusive" for waiter in waiters)
    for place, waiter in enumerate(waiters, 1):
        who = printable(str(waiter) if usual else f"{waiter.mode}  {waiter}")
        yield shorten(f"  {place:>3}  {duration(waiter.waited):>6}  {who}", width)
    if lock.waiting > len(waiters):
        yield f"       and {lock.waiting - len(waiters)} more: `show --limit` lists them"
