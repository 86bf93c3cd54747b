"""`manage.py locks list`: which locks to show, in which order, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any

from redis_locks.conf.settings import get_settings
from redis_locks.inspection import LockInfo, filters
from redis_locks.inspection.filters import Filter, Search
from redis_locks.inspection.headline import headline
from redis_locks.inspection.survey import MOST, queues
from redis_locks.management.locks.console import Console
from redis_locks.management.locks.report import FOR_PROGRAMS, Report, Row
from redis_locks.management.locks.table import table, word_for
from redis_locks.management.locks.verb import LIMIT, PATTERN, SECONDS, Argument, Verb
from redis_locks.statistics.usual import recent
from redis_locks.values.text import printable, wrapped

_HOLDER = ("host", "pid", "unit", "label", "held_for", "lease_left", "fencing_token")
_COLUMNS = ("name", "mode", "holding", "waiting", *_HOLDER, "state")

_WIDTH = 100
"""Of the headline, where stdout is no terminal."""

_AROUND = 3
"""Lines of a screen that are no locks, beside the headline: the header, how many more there are,
and the prompt.
"""

_ALIKE, _MOST_ALIKE = 0.75, 5_000
"""How much of two names must be the same, and among how many locks such a name is looked for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which locks to show, in which order of `filters.ORDERS`, and how many at most; None: all."""

    matching: Filter = field(default_factory=Filter)
    sort: str = filters.TROUBLE
    limit: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Selection:
        """Return what the options of `SELECTION` ask for."""
        matching = Filter(
            pattern=options["pattern"] or "",
            host=options["host"] or "",
            held_for=options["older"] or 0,
            contended=options["contended"],
        )
        return cls(matching, options["sort"], options["limit"])

    def search(self, using: str | None) -> Search:
        """Look for the locks that match.

        The limit is not applied, but lets more locks be looked at.
        """
        least = MOST if self.limit is None else self.limit
        return filters.search(self.matching, order=self.sort, using=using, least=least)


SELECTION = (
    PATTERN,
    Argument(
        "--host", help="only locks of which one of the first ten holders or waiters is on this host"
    ),
    Argument("--older", **SECONDS, help="only locks held for this long or longer"),
    Argument("--contended", action="store_true", help="only locks with waiters"),
    Argument(
        "--sort",
        choices=filters.ORDERS,
        default=filters.TROUBLE,
        help="trouble: oldest wait first, then the hold that is longest beside its usual length; "
        "default: %(default)s",
    ),
    LIMIT,
)
"""The arguments that make a `Selection`."""


class List(Verb):
    """A table of the locks, a line per hold."""

    name = "list"
    help = "List the locks that are held or waited for, trouble first."
    examples = ("list", "list 'account:*' --contended", "list --older 60 --sort held --json")
    details = (
        "STATE says what is wrong. gone: the holder has died, lost its connection, or detached "
        "the hold. long: held far longer than usual. stale: the lease is not being renewed. "
        "convoy: more callers come than the lock can serve. deadlock: one was broken within 5 "
        "minutes. A terminal shows a screenful; --all shows all."
    )
    arguments = (
        *SELECTION,
        Argument("--all", action="store_true", help="on a terminal: more than a screenful"),
    )

    def run(self, console: Console, **options: Any) -> None:
        """Print the locks; tab-separated when stdout is not a terminal."""
        chosen, wanted = Selection.of(options), options["format"]
        result = chosen.search(options["using"])
        said = _said(result, console) if len(result) else []
        most = chosen.limit
        if wanted is None and most is None and not options.get("all") and console.lines:
            most = max(1, console.lines - _AROUND - len(said))
        shown = result.details(result.found[:most])
        console.report(_report(shown, console, result, said), wanted, piped="plain")
        if not result.complete:
            # Programs, too, must not take a part for all.
            looked = (
                f"Of {result.survey.total:,} locks, this looked at {len(result.survey.locks):,}: "
                "those with long waits, others with waiters, and those whose leases end first. "
                "Give a name to find any other, or a --limit to look at more."
            )
            console.note("\n".join(wrapped(looked, console.columns)))
        if wanted not in FOR_PROGRAMS:
            _tell_people(console, chosen, result, len(shown), options["using"])


def _tell_people(
    console: Console, chosen: Selection, result: Search, shown: int, using: str | None
) -> None:
    """Note what is not listed, and why."""
    there = result.survey.total
    if not there:
        console.note("No lock is held or waited for.")
    elif not shown:
        pattern = chosen.matching.pattern
        asked = did_you_mean(pattern, using) if pattern else ""
        console.note(f"None of the {there:,} locks matches.{asked}")
    elif chosen.limit is not None and chosen.limit < len(result):
        console.note(f"{shown:,} of {len(result):,} locks.")
    elif shown < len(result) and console.lines:
        console.note(f"… {len(result) - shown:,} more (`--all`)")
    others = [server for server in get_settings().server_names if server]
    if others and using is None:
        console.note(f"These are of the default server. Others: --using {' or '.join(others)}.")


def _said(result: Search, console: Console) -> list[str]:
    """Return the headline of the admin's list, as lines of the terminal."""
    said = " ".join(sentence.text() for sentence in headline(result))
    return wrapped(said, console.columns or _WIDTH)


def _report(
    locks: Sequence[LockInfo], console: Console, result: Search, said: Sequence[str]
) -> Report:
    def text(columns: int | None) -> list[str]:
        lines = table(locks, columns, result.recent, result.states)
        return [*said, *console.headed(lines)] if locks else []

    words = {lock.name: word_for(result.states.get(lock.name)) for lock in locks}
    rows = [row | {"state": words[lock.name]} for lock in locks for row in _rows(lock)]
    document = [{**asdict(lock), "state": words[lock.name]} for lock in locks]
    return Report(document, _COLUMNS, rows, text)


def _rows(lock: LockInfo) -> list[Row]:
    counts = {"holding": lock.holding, "waiting": lock.waiting}
    common: Row = {"name": lock.name, "mode": lock.mode, **counts}
    if not lock.holders:
        return [common | dict.fromkeys(_HOLDER)]
    return [
        common | {field: getattr(holder, field) for field in ("mode", *_HOLDER)}
        for holder in lock.holders
    ]


def did_you_mean(name: str, using: str | None) -> str:
    """Return a question for who has mistyped a name, with a space before it.

    Empty if no name is like it. Blocks.
    """
    names = queues(using=using, most=_MOST_ALIKE).lengths
    # Those that nobody holds now, but did in the last hour, are known by their figures.
    known = dict.fromkeys([*names, *recent(using=using).names])
    alike = get_close_matches(name, known, n=3, cutoff=_ALIKE)
    return f" Did you mean {' or '.join(map(repr, map(printable, alike)))}?" if alike else ""
