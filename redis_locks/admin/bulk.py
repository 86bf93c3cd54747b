"""The end of many holds and waits at once.

They are of the locks that a filter finds, or of one host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from redis_locks.admin.actions import Ending
from redis_locks.admin.table_rows import PartyRow, short_name
from redis_locks.conf.name_function import listed
from redis_locks.connections.backends import blocking_answer
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo
from redis_locks.inspection.filters import Filter, search
from redis_locks.inspection.queries import read_whole
from redis_locks.inspection.replies import MOST_LISTED, Summary
from redis_locks.inspection.survey import MOST, Survey

MOST_PARTIES = 500
"""How many holds and waits are ended at once."""

_AT_ONCE = 100
"""Of how many locks the details are read before it is looked whether these are enough."""

_SEPARATOR = "\t"


@dataclass(frozen=True, slots=True)
class Choice:
    """A hold or a wait that may be ended, as a row; `value` is what the form sends back for it."""

    value: str
    lock: str
    role: str
    party: PartyRow


@dataclass(frozen=True, slots=True)
class BulkSelection:
    """What a filter finds.

    Attributes:
        choices: The holds and waits, by lock.
        hosts: On how many hosts they are.
        cut: Whether further holds and waits match, which are not shown.
        survey: The locks that were looked at; None: all.
    """

    choices: Sequence[Choice]
    hosts: int
    cut: bool
    survey: Survey | None

    def counted(self, role: str) -> int:
        """Return how many holds ("release") or waits ("cancel") there are."""
        return sum(choice.role == role for choice in self.choices)


def select(matching: Filter, endings: Sequence[Ending], using: str | None) -> BulkSelection:
    """Return the holds and waits of the locks that match, of one host if the filter names it.

    Blocks.

    It looks at `survey.MOST` locks at most, and reads the details of these until it has
    `MOST_PARTIES` and one more.

    Args:
        matching: Which locks.
        endings: What the user may end.
        using: The server, as for `inspection.locks`.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    # Not by the host: a search knows the first ten holders and waiters of each lock only.
    result = search(replace(matching, host=""), using=using, least=MOST)
    host, roles = matching.host.casefold(), [ending.view for ending in endings]
    names = [lock.name for lock in result.found if not host or _may_have(lock, host)]
    choices: list[Choice] = []
    for start in range(0, len(names), _AT_ONCE):
        if len(choices) > MOST_PARTIES:
            break
        read = partial(read_whole, names=names[start : start + _AT_ONCE])
        choices += [
            _choice(lock, role, party)
            for lock in blocking_answer(using, read)
            for role, party in _parties(lock)
            if role in roles and host in {"", party.host.casefold()}
        ]
    shown = choices[:MOST_PARTIES]
    return BulkSelection(
        choices=shown,
        hosts=len({choice.party.host for choice in shown}),
        cut=len(choices) > len(shown),
        survey=None if result.complete else result.survey,
    )


def _may_have(lock: Summary, host: str) -> bool:
    """Whether somebody on this host holds the lock or waits for it.

    As far as one can know without its details.
    """
    if max(lock.holding, lock.waiting) > MOST_LISTED:
        return True
    return any(host == who.host.casefold() for who in (*lock.holders, *lock.waiters))


def _parties(lock: LockInfo) -> list[tuple[str, HolderInfo | WaiterInfo]]:
    # Without a token it is a hold of a version with another protocol, which only that version ends.
    held = [("release", holder) for holder in lock.holders if holder.token]
    return held + [("cancel", waiter) for waiter in lock.waiters]


def _choice(lock: LockInfo, role: str, party: HolderInfo | WaiterInfo) -> Choice:
    row = PartyRow.of(party, lock.at)
    value = _SEPARATOR.join((role, row.mark, lock.name))
    return Choice(value, short_name(lock.name), role, row)


def chosen(values: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """Return the marks that a form sent back, by role and name of the lock.

    It leaves out what is no choice.
    """
    marks: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for value in values[:MOST_PARTIES]:
        role, _, rest = value.partition(_SEPARATOR)
        mark, separator, name = rest.partition(_SEPARATOR)
        if separator:
            marks[role, listed(name)].append(mark)
    return marks
