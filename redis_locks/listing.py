"""One page of the locks: filtered, sorted, and cheap when there are very many.

A page by name costs one pass over the names, which `inspection.names` makes cheap, and the
details of the locks on it. Host, age, contention and the other orders need the details of
every lock whose name matches; of more than `MOST_SEARCHED` only the first by name are looked
at, and the page says how many were left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from redis_locks import inspection
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.text import printable

T = TypeVar("T")

PAGE_SIZE = 100
MOST_SEARCHED = 5000
"""How many locks are looked at for a filter or an order that needs their details."""

ORDERS: dict[str, Callable[[LockInfo], Any]] = {
    # Within the same value by name, as sorting is stable and starts from the names.
    "name": lambda lock: lock.name,
    "held": lambda lock: -_held_for(lock),
    "lease": lambda lock: min((holder.lease_left for holder in lock.holders), default=0),
    "queue": lambda lock: -lock.waiting,
}
"""Sort keys: by name, held longest, lease ending soonest, longest queue."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which locks to list; the defaults let all pass.

    Attributes:
        name: Text that the name contains, as it is or as it is shown, in upper or lower case.
        host: Text that the host of a holder or of one of the first waiters contains.
        held_for: Seconds for which a holder has held it at least.
        contended: Only locks that somebody waits for.
    """

    name: str = ""
    host: str = ""
    held_for: float = 0
    contended: bool = False

    @property
    def needs_details(self) -> bool:
        """Whether the name alone does not tell."""
        return bool(self.host or self.held_for or self.contended)

    def keeps_name(self, name: str) -> bool:
        """Whether a lock of that name can pass."""
        wanted = self.name.casefold()
        # People type what they see, which for a control character is its escape.
        return wanted in name.casefold() or (
            not name.isprintable() and wanted in printable(name).casefold()
        )

    def keeps(self, lock: LockInfo) -> bool:
        """Whether a lock whose name passes does so by its details."""
        parties: list[HolderInfo | WaiterInfo] = [*lock.holders, *lock.waiters]
        wanted = self.host.casefold()
        return (
            (not self.contended or lock.waiting > 0)
            and _held_for(lock) >= self.held_for
            and (not wanted or any(wanted in party.host.casefold() for party in parties))
        )


@dataclass(frozen=True, slots=True)
class Page:
    """One page of locks.

    Attributes:
        locks: Those of the page that somebody still held or waited for when it was read.
        number: Which page it is, from 1.
        pages: How many there are, at least 1.
        found: How many locks there are on all pages.
        left_out: How many locks were too many to look at; see `MOST_SEARCHED`.
    """

    locks: tuple[LockInfo, ...]
    number: int
    pages: int
    found: int
    left_out: int

    @property
    def before(self) -> int:
        """The number of the page before, even if there is none."""
        return self.number - 1

    @property
    def after(self) -> int:
        """The number of the page after, even if there is none."""
        return self.number + 1


def page(
    number: int = 1,
    *,
    matching: Filter | None = None,
    order: str = "name",
    using: str | None = None,
) -> Page:
    """Return one page of the locks that somebody holds or waits for; blocks for some round trips.

    Args:
        number: Which page, from 1; a number out of range gives the nearest page there is.
        matching: Which locks; None for all.
        order: One of `ORDERS`.
        using: The server, as for `inspection.locks`.

    Raises:
        LockBackendError: Redis could not be asked.
        ValueError: There is no such order.
    """
    if order not in ORDERS:
        msg = f"order must be one of {', '.join(ORDERS)}, not {order!r}"
        raise ValueError(msg)
    matching = matching or Filter()
    names = [name for name in inspection.names(using=using) if matching.keeps_name(name)]
    if order == "name" and not matching.needs_details:
        number, pages = _nearest(number, len(names))
        shown = inspection.locks(names=_slice(names, number), using=using)
        return Page(tuple(shown), number, pages, len(names), 0)
    searched = inspection.locks(names=names[:MOST_SEARCHED], using=using)
    found = sorted(filter(matching.keeps, searched), key=ORDERS[order])
    number, pages = _nearest(number, len(found))
    left_out = max(0, len(names) - MOST_SEARCHED)
    return Page(tuple(_slice(found, number)), number, pages, len(found), left_out)


def _nearest(number: int, found: int) -> tuple[int, int]:
    pages = max(1, -(-found // PAGE_SIZE))
    return min(max(1, number), pages), pages


def _slice(rows: list[T], number: int) -> list[T]:
    return rows[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]


def _held_for(lock: LockInfo) -> float:
    return max((holder.held_for for holder in lock.holders), default=0)
