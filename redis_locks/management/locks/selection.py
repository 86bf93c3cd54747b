"""Which locks to show, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.core.management.base import CommandParser

from redis_locks.inspection import LockInfo, filters
from redis_locks.inspection.filters import Search, held_for
from redis_locks.management.locks.verb import count, seconds


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
    sort: str = "name"
    limit: int | None = None

    def search(self, using: str | None) -> Search:
        """Look for the locks that match; the limit is not applied."""
        return filters.search(self, order=self.sort, using=using)

    @property
    def needs_details(self) -> bool:
        """Whether the name and the length of the queue do not tell."""
        return self.host is not None or self.older is not None

    def keeps_name(self, name: str) -> bool:
        """Whether a lock of that name can match."""
        return self.pattern is None or fnmatchcase(name, self.pattern)

    def keeps(self, lock: LockInfo) -> bool:
        """Whether a lock whose name matches does so by its details."""
        return (
            (self.host is None or any(self.host == holder.host for holder in lock.holders))
            and (self.older is None or held_for(lock) > self.older)
            and (lock.waiting > 0 or not self.contended)
        )


def add_arguments(parser: CommandParser, *, sort: str) -> None:
    """Add the arguments that make a Selection."""
    parser.add_argument("pattern", nargs="?", help="only locks whose name matches: 'account:*'")
    parser.add_argument("--host", help="only locks held by this host")
    parser.add_argument(
        "--older", type=seconds, metavar="SECONDS", help="only locks held for longer than this"
    )
    parser.add_argument("--contended", action="store_true", help="only locks with waiters")
    parser.add_argument(
        "--sort",
        choices=filters.ORDERS,
        default=sort,
        help="by name, longest held, least lease left, or longest queue; default: %(default)s",
    )
    parser.add_argument("--limit", type=count, metavar="N", help="show at most so many locks")
