"""Which locks to show, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from django.core.management.base import CommandParser

from redis_locks.inspection import filters
from redis_locks.inspection.filters import Filter, Search
from redis_locks.inspection.survey import MOST, queues
from redis_locks.management.locks.verb import COUNT, SECONDS
from redis_locks.statistics.usual import recent
from redis_locks.values.text import printable

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
        """Return what the options that `add_arguments` adds ask for."""
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


def did_you_mean(name: str, using: str | None) -> str:
    """Return a question for who has mistyped a name, with a space before it.

    Empty if no name is like it. Blocks.
    """
    names = queues(using=using, most=_MOST_ALIKE).lengths
    # Those that nobody holds now, but did in the last hour, are known by their figures.
    known = dict.fromkeys([*names, *recent(using=using).names])
    alike = get_close_matches(name, known, n=3, cutoff=_ALIKE)
    return f" Did you mean {' or '.join(map(repr, map(printable, alike)))}?" if alike else ""


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments that make a Selection."""
    parser.add_argument("pattern", nargs="?", help="only locks whose name matches: 'account:*'")
    parser.add_argument(
        "--host", help="only locks of which one of the first ten holders or waiters is on this host"
    )
    parser.add_argument("--older", **SECONDS, help="only locks held for this long or longer")
    parser.add_argument("--contended", action="store_true", help="only locks with waiters")
    parser.add_argument(
        "--sort",
        choices=filters.ORDERS,
        default=filters.TROUBLE,
        help="trouble: oldest wait first, then the hold that is longest beside its usual length; "
        "default: %(default)s",
    )
    parser.add_argument("--limit", **COUNT, help="show at most so many locks")
