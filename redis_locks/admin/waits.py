"""The waits in progress, on the page of figures.

By lock, by template of the name, and by what the holder runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from redis_locks.admin.paths import ServerPages
from redis_locks.admin.screens import Piece, Screen
from redis_locks.admin.server_strip import shared_survey
from redis_locks.admin.table_rows import Headline, short_name
from redis_locks.inspection import headline
from redis_locks.inspection.cases import LONG_WAIT
from redis_locks.inspection.filters import Filter, groups, search
from redis_locks.inspection.localized_times import duration
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.survey import crowd
from redis_locks.values.text import printable

MOST_ROWS = 5
"""How many rows each table has: those with the oldest waits."""


@dataclass(frozen=True, slots=True)
class WaitsRow:
    """The waits for one lock, for locks with similar names, or for what one holder runs."""

    name: str
    url: str
    waiting: int
    oldest_wait: str = field(repr=False)
    since: str
    level: str

    @classmethod
    def of(cls, name: str, url: str, waiting: int, oldest: float, at: float) -> WaitsRow:
        """Return the row of waits in a survey that was read at `at`."""
        level = "trouble" if oldest >= LONG_WAIT else "contended"
        since = f"{at - oldest:.3f}"
        return cls(short_name(name), url, waiting, duration(oldest), since, level)


def waits_screen(query: str, pages: ServerPages) -> Screen:
    """Return who waits now for the locks that match what a user typed; blocks for some round trips.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    result = search(Filter(text=query, contended=True), read=shared_survey, using=pages.using)
    at, locks = result.survey.at, result.found

    def like(text: str) -> str:
        return pages.url("changelist", q=text, contended="on")

    by_lock = [
        WaitsRow.of(lock.name, pages.url("change", lock.name), lock.waiting, lock.oldest_wait, at)
        for lock in locks[:MOST_ROWS]
    ]
    alike = groups(locks)
    by_name = [
        WaitsRow.of(group.pattern, like(group.pattern), group.waiting, group.oldest_wait, at)
        for group in alike[:MOST_ROWS]
    ]
    runs = _by_holder(locks)
    by_holder = [
        WaitsRow.of(
            printable(label) or pgettext("locks", "unknown"), like(label), waiting, oldest, at
        )
        for label, waiting, oldest in runs[:MOST_ROWS]
    ]
    oldest = max(locks, key=lambda lock: lock.oldest_wait, default=None)
    said = headline.waits(crowd(locks), len(locks), oldest, counted=result.complete)
    verdict = Headline.of((said,), at, pages)
    shown = (
        (pgettext("locks", "Lock"), by_lock, len(locks)),
        (_("Locks with names like"), by_name, len(alike)),
        (pgettext("locks", "Holder"), by_holder, len(runs)),
    )
    tables = [
        {"title": title, "rows": rows, "more": known - len(rows)} for title, rows, known in shown
    ]
    waits = {"verdict": verdict, "contended": len(locks), "tables": tables}
    part = Piece("waits", context={"waits": waits})
    return Screen(now=result.survey.now, parts=(part,), rows=())


def _by_holder(locks: Iterable[Summary]) -> list[tuple[str, int, float]]:
    """Return what holders run, how many wait for them, and for how long the first does.

    The oldest wait comes first.

    A lock with several holders counts once for each label. A lock without a holder does not count.
    """
    held: defaultdict[str, list[Summary]] = defaultdict(list)
    for lock in locks:
        for label in {who.label for who in lock.holders}:
            held[label].append(lock)
    runs = [
        (label, crowd(waited).most, max(lock.oldest_wait for lock in waited))
        for label, waited in held.items()
    ]
    return sorted(runs, key=lambda run: (-run[2], run[0]))
