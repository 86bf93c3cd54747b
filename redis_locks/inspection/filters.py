"""Some of the locks: filtered, sorted, and cheap when there are very many.

A part by name or by queue costs one pass over the names, which `inspection` makes cheap, and
the details of the locks in it. Host, age and the other orders need the details of
every lock whose name matches. A page of more than `MOST_SEARCHED` looks at the first by name
only, and says how many were left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from redis_locks import inspection
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.values.text import printable

PAGE_SIZE = 100
MOST_SEARCHED = 5000
"""How many locks are looked at for a filter or an order that needs their details."""

ORDERS: dict[str, Callable[[LockInfo], Any]] = {
    # Within the same value by name, as sorting is stable and starts from the names.
    "name": lambda lock: lock.name,
    "held": lambda lock: -held_for(lock),
    "lease": lambda lock: min((holder.lease_left for holder in lock.holders), default=0),
    "queue": lambda lock: -lock.waiting,
}
"""Sort keys: by name, held longest, lease ending soonest, longest queue."""


class Matching(Protocol):
    """Which locks to list."""

    @property
    def contended(self) -> bool:
        """Whether only locks that somebody waits for."""

    @property
    def needs_details(self) -> bool:
        """Whether the name and the length of the queue do not tell."""

    def keeps_name(self, name: str) -> bool:
        """Whether a lock of that name can pass."""

    def keeps(self, lock: LockInfo) -> bool:
        """Whether a lock whose name passes does so by its details."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which locks to show to people; the defaults let all pass.

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
        """Whether the name and the length of the queue do not tell."""
        return bool(self.host or self.held_for)

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
            and held_for(lock) >= self.held_for
            and (not wanted or any(wanted in party.host.casefold() for party in parties))
        )


@dataclass(frozen=True, slots=True)
class Search:
    """Locks that match, in order; `len` says how many.

    Attributes:
        there: How many locks there are, whether they match or not.
        left_out: How many locks were too many to look at.
        names: The names of those that match, in order.
        waiting: How many wait for those that match; None if the search did not have to read it.
    """

    there: int
    left_out: int
    names: Sequence[str]
    waiting: int | None
    _known: Mapping[str, LockInfo]
    _using: str | None

    def __len__(self) -> int:
        return len(self.names)

    def part(self, start: int, stop: int | None) -> list[LockInfo]:
        """Return those from one place to before another, counted from 0; None: to the end.

        Blocks for some round trips if the search did not have to read them. A lock that has
        become free meanwhile is missing then.

        Raises:
            LockBackendError: Redis could not be asked.
        """
        names = self.names[start:stop]
        if self._known:
            return [self._known[name] for name in names]
        return inspection.locks(names=names, using=self._using)


def search(
    matching: Matching, *, order: str = "name", most: int | None = None, using: str | None = None
) -> Search:
    """Look for locks that somebody holds or waits for; blocks for some round trips.

    Args:
        matching: Which locks.
        order: One of `ORDERS`.
        most: Where details decide, look at no more locks than this; None: at all.
        using: The server, as for `inspection.locks`.

    Raises:
        LockBackendError: Redis could not be asked.
        ValueError: There is no such order.
    """
    if order not in ORDERS:
        msg = f"order must be one of {', '.join(ORDERS)}, not {order!r}"
        raise ValueError(msg)
    queues = None
    if order == "queue" or matching.contended:
        queues = inspection.queues(using=using)
    there = list(queues) if queues is not None else inspection.names(using=using)
    names = [name for name in there if matching.keeps_name(name)]
    if queues is not None and matching.contended:
        names = [name for name in names if queues[name]]
    if order in {"name", "queue"} and not matching.needs_details:
        if queues is None:
            return Search(len(there), 0, names, None if names else 0, {}, using)
        if order == "queue":
            names.sort(key=lambda name: -queues[name])
        waiting = sum(queues[name] for name in names)
        return Search(len(there), 0, names, waiting, {}, using)
    searched = inspection.locks(names=names[:most], using=using)
    found = sorted(filter(matching.keeps, searched), key=ORDERS[order])
    known = {lock.name: lock for lock in found}
    waiting = sum(lock.waiting for lock in found)
    return Search(len(there), len(names) - len(names[:most]), list(known), waiting, known, using)


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
    found = search(matching or Filter(), order=order, most=MOST_SEARCHED, using=using)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    number = min(max(1, number), pages)
    shown = found.part((number - 1) * PAGE_SIZE, number * PAGE_SIZE)
    return Page(tuple(shown), number, pages, len(found), found.left_out)


def held_for(lock: LockInfo) -> float:
    """Return for how long, in seconds, the first of its holders has held a lock; 0: nobody does."""
    return max((holder.held_for for holder in lock.holders), default=0)
