"""The end of many holds and waits at once: those of the locks that a filter finds, or of one host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis_locks.admin.actions import Ending
from redis_locks.admin.table_rows import PartyRow, short_name
from redis_locks.connections.backends import blocking_answer
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.filters import Filter, search
from redis_locks.inspection.queries import read_whole

MOST_LOCKS = 200
"""How many locks are looked at: those in most trouble."""

MOST_PARTIES = 500
"""How many holds and waits are ended at once."""

_SEPARATOR = "\t"


@dataclass(frozen=True, slots=True)
class Choice:
    """A hold or a wait that may be ended, as a row; `value` is what the form sends back for it."""

    value: str
    lock: str
    role: str
    party: PartyRow


@dataclass(frozen=True, slots=True)
class Selection:
    """What a filter finds.

    Attributes:
        choices: The holds and waits, by lock.
        hosts: On how many hosts they are.
        more: How many further locks match, which are not shown.
        cut: How many further holds and waits of the locks are not shown.
    """

    choices: Sequence[Choice]
    hosts: int
    more: int
    cut: int

    def counted(self, role: str) -> int:
        """Return how many holds ("release") or waits ("cancel") there are."""
        return sum(choice.role == role for choice in self.choices)


def select(matching: Filter, endings: Sequence[Ending[Any]], using: str | None) -> Selection:
    """Return the holds and waits of the locks that match, of one host only if the filter names one.

    Args:
        matching: Which locks.
        endings: What the user may end.
        using: The server, as for `inspection.locks`.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    found = search(matching, using=using).found
    names = [lock.name for lock in found[:MOST_LOCKS]]
    locks = blocking_answer(using, partial(read_whole, names=names)) if names else []
    roles = [ending.view for ending in endings]
    choices, hosts = [], set()
    for lock in locks:
        for role, party in _parties(lock):
            if role in roles and matching.host.casefold() in {"", party.host.casefold()}:
                row = PartyRow.of(party, lock.at)
                value = _SEPARATOR.join((role, row.mark, lock.name))
                choices.append(Choice(value, short_name(lock.name), role, row))
                hosts.add(party.host)
    more, cut = len(found) - len(names), max(0, len(choices) - MOST_PARTIES)
    return Selection(choices[:MOST_PARTIES], len(hosts), more, cut)


def _parties(lock: LockInfo) -> list[tuple[str, HolderInfo | WaiterInfo]]:
    held = [("release", holder) for holder in lock.holders]
    return held + [("cancel", waiter) for waiter in lock.waiters]


def chosen(values: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """Return the marks that a form sent back, by role and name of the lock; what is no choice is left out."""
    marks: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for value in values[:MOST_PARTIES]:
        role, _, rest = value.partition(_SEPARATOR)
        mark, separator, name = rest.partition(_SEPARATOR)
        if separator:
            marks[role, name].append(mark)
    return marks
