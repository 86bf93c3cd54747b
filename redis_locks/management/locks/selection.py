"""Which locks to show, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from django.core.management.base import CommandParser

from redis_locks.conf.name_function import both_forms
from redis_locks.inspection import filters
from redis_locks.inspection.filters import Search
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.survey import MOST, Named, queues
from redis_locks.management.locks.verb import count, seconds
from redis_locks.statistics.usual import recent
from redis_locks.values.text import printable

_GLOB = frozenset("*?[")

_ALIKE, _MOST_ALIKE = 0.75, 5_000
"""How much of two names must be the same, and among how many locks such a name is looked for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, which must all match, an order, and the most locks to show; None: any, all.

    `older` is in seconds: only locks that one holder has held for longer. `sort` is one of the
    orders of a search.
    """

    pattern: str | None = None
    host: str | None = None
    older: float | None = None
    contended: bool = False
    sort: str = filters.TROUBLE
    limit: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Selection:
        """Return what the options that `add_arguments` adds ask for."""
        return cls(**{field: options[field] for field in cls.__slots__})

    def search(self, using: str | None) -> Search:
        """Look for the locks that match; the limit is not applied, but lets more locks be looked at."""
        least = MOST if self.limit is None else self.limit
        return filters.search(self, order=self.sort, using=using, least=least)

    @property
    def is_plain(self) -> bool:
        """Whether it lets all locks pass."""
        return replace(self, sort=filters.TROUBLE, limit=None) == Selection()

    @property
    def named(self) -> Named | None:
        """Which names it asks for."""
        if self.pattern is None:
            return None
        literal = not _GLOB.intersection(self.pattern)
        return Named(self.pattern, names_match, literal=literal, alone=literal)

    def keeps(self, lock: Summary) -> bool:
        """Whether to list a lock."""
        return (
            (self.pattern is None or names_match(self.pattern, lock.name))
            and (self.host is None or self._has_host(lock))
            and (self.older is None or lock.held_for > self.older)
            and (lock.waiting > 0 or not self.contended)
        )

    def _has_host(self, lock: Summary) -> bool:
        return any(self.host == who.host for who in (*lock.holders, *lock.waiters))


def names_match(pattern: str, name: str) -> bool:
    """Whether a name on the server matches a pattern, as it stands or as code gives names."""
    return any(fnmatchcase(name, form) for form in both_forms(pattern))


def did_you_mean(name: str, using: str | None) -> str:
    """Return a question for who has mistyped a name, with a space before it; empty if no name is like it. Blocks."""
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
    parser.add_argument(
        "--older", type=seconds, metavar="SECONDS", help="only locks held for longer than this"
    )
    parser.add_argument("--contended", action="store_true", help="only locks with waiters")
    parser.add_argument(
        "--sort",
        choices=filters.ORDERS,
        default=filters.TROUBLE,
        help="trouble: oldest wait first, then the hold that is longest beside its usual length; default: %(default)s",
    )
    parser.add_argument("--limit", type=count, metavar="N", help="show at most so many locks")
