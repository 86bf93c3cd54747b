"""The end of many holds and waits at once: those of the locks that a filter finds, or of one host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from redis_locks.admin.actions import Ending
from redis_locks.admin.table_rows import PartyRow, short_name
from redis_locks.conf.name_function import listed
from redis_locks.connections.backends import blocking_answer
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.filters import Filter, search
from redis_locks.inspection.queries import read_whole
from redis_locks.inspection.survey import Survey

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
        cut: How many further holds and waits match, which are not shown.
        survey: The locks that were looked at; None: all.
    """

    choices: Sequence[Choice]
    hosts: int
    cut: int
    survey: Survey | None

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
    names, survey = None, None
    # Not by the host: a search knows the first ten holders and waiters of each lock only.
    of_any_host = replace(matching, host="")
    if not of_any_host.is_plain:
        found = search(of_any_host, using=using)
        names = [lock.name for lock in found.found]
        survey = None if found.complete else found.survey
    roles = [ending.view for ending in endings]
    found_parties = [
        (lock, role, party)
        for lock in blocking_answer(using, partial(read_whole, names=names))
        for role, party in _parties(lock)
        if role in roles and matching.host.casefold() in {"", party.host.casefold()}
    ]
    shown = found_parties[:MOST_PARTIES]
    return Selection(
        choices=[_choice(*each) for each in shown],
        hosts=len({party.host for _, _, party in shown}),
        cut=len(found_parties) - len(shown),
        survey=survey,
    )


def _parties(lock: LockInfo) -> list[tuple[str, HolderInfo | WaiterInfo]]:
    held = [("release", holder) for holder in lock.holders]
    return held + [("cancel", waiter) for waiter in lock.waiters]


def _choice(lock: LockInfo, role: str, party: HolderInfo | WaiterInfo) -> Choice:
    row = PartyRow.of(party, lock.at)
    value = _SEPARATOR.join((role, row.mark, lock.name))
    return Choice(value, short_name(lock.name), role, row)


def chosen(values: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """Return the marks that a form sent back, by role and name of the lock; what is no choice is left out."""
    marks: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for value in values[:MOST_PARTIES]:
        role, _, rest = value.partition(_SEPARATOR)
        mark, separator, name = rest.partition(_SEPARATOR)
        if separator:
            marks[role, listed(name)].append(mark)
    return marks
