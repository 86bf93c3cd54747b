"""Which locks to show, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.core.management.base import CommandParser

from redis_locks.inspection import LockInfo
from redis_locks.management.locks.verb import count, seconds


def _held_for(lock: LockInfo) -> float:
    return max((holder.held_for for holder in lock.holders), default=0.0)


def _lease_left(lock: LockInfo) -> float:
    return min((holder.lease_left for holder in lock.holders), default=0.0)


_ORDERS: dict[str, Callable[[LockInfo], float]] = {
    "held": lambda lock: -_held_for(lock),
    "left": _lease_left,
    "waiters": lambda lock: -lock.waiting,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, which must all match, an order, and the most locks to show; None: any, all.

    `older` is in seconds: only locks that one holder has held for longer. `sort` is "name",
    "held" (longest first), "left" (lease that ends first) or "waiters" (most first).
    """

    pattern: str | None = None
    host: str | None = None
    older: float | None = None
    contended: bool = False
    sort: str = "name"
    limit: int | None = None

    def apply(self, locks: Sequence[LockInfo]) -> list[LockInfo]:
        """Return the locks that match, in order, without the limit."""
        found = sorted(filter(self._matches, locks), key=lambda lock: lock.name)
        # Stable: equals stay in the order of their names.
        return found if self.sort == "name" else sorted(found, key=_ORDERS[self.sort])

    def _matches(self, lock: LockInfo) -> bool:
        return (
            (self.pattern is None or fnmatchcase(lock.name, self.pattern))
            and (self.host is None or any(self.host == holder.host for holder in lock.holders))
            and (self.older is None or _held_for(lock) > self.older)
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
        choices=["name", *_ORDERS],
        default=sort,
        help="by name, longest held, least lease left, or most waiters; default: %(default)s",
    )
    parser.add_argument("--limit", type=count, metavar="N", help="show at most so many locks")
