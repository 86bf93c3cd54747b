"""Find, filter, sort and group the locks of a server, for the admin and `manage.py locks`.

All of it works on a survey, which has summaries of all locks, or of as many as its bounds allow.
Details are read for one page only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis_locks import inspection
from redis_locks.conf.name_function import both_forms
from redis_locks.inspection import LockInfo
from redis_locks.inspection.cases import LONG_WAIT, RECENT, Case, case_of, excess, is_renewed
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.survey import FEW, MOST, Crowd, Named, Survey, crowd, survey
from redis_locks.statistics.usual import Recent, recent
from redis_locks.values.arguments import one_of
from redis_locks.values.keys import QUEUED
from redis_locks.values.name_patterns import WILDCARD, matches, pattern_of
from redis_locks.values.text import printable

TROUBLE: Final = "trouble"
ORDERS: Final = (TROUBLE, "name", "held", "lease", "queue")
"""By trouble: locks in trouble first, then convoys, then other waiters, each by the oldest wait;
then the hold that exceeds its usual length most. By name, held longest, lease that ends first, most
waiters.
"""

_KEYS: dict[str, Callable[[Summary], Any]] = {
    # Sorting is stable and starts from the names: locks of equal value stay sorted by name.
    "name": lambda lock: lock.name,
    "held": lambda lock: -lock.held_for,
    "lease": lambda lock: lock.lease_left,
    "queue": lambda lock: -lock.waiting,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which locks to show to people; the defaults let all pass.

    Attributes:
        pattern: The whole name, where an asterisk stands for any text.
        text: A part of the name, or of the host or label of a holder or first waiter, in upper or
            lower case. With an asterisk: the name, where that stands for any text.
        host: The host of a holder, or of one of the first waiters.
        held_for: Seconds for which some holder has held the lock at least.
        waited: Seconds for which the first waiter has waited at least.
        contended: Only locks that somebody waits for.
        stale: Only locks with a lease that is not being renewed.
        gone: Only locks of which the process of a holder has died or is cut off.
    """

    pattern: str = ""
    text: str = ""
    host: str = ""
    held_for: float = 0
    waited: float = 0
    contended: bool = False
    stale: bool = False
    gone: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it lets all locks pass."""
        return self == _PLAIN

    @property
    def named(self) -> Named | None:
        """Which names it asks for."""
        if self.text:
            return Named(self.text, names_like, literal=WILDCARD not in self.text)
        if self.pattern:
            literal = WILDCARD not in self.pattern
            return Named(self.pattern, names_match, literal=literal, alone=literal)
        return None

    def keeps(self, lock: Summary) -> bool:
        """Whether to list a lock."""
        return (
            (lock.waiting > 0 or not self.contended)
            and lock.held_for >= self.held_for
            and lock.oldest_wait >= self.waited
            and (
                not self.stale or (lock.holding > 0 and not is_renewed(lock.lease_left, lock.lease))
            )
            and (not self.gone or _is_gone(lock))
            and (not self.pattern or names_match(self.pattern, lock.name))
            and (not self.host or self._has_host(lock))
            and (not self.text or self._has_text(lock))
        )

    def _has_host(self, lock: Summary) -> bool:
        wanted = self.host.casefold()
        return any(wanted == who.host.casefold() for who in (*lock.holders, *lock.waiters))

    def _has_text(self, lock: Summary) -> bool:
        if names_like(self.text, lock.name):
            return True
        wanted = self.text.casefold()
        return WILDCARD not in wanted and any(
            wanted in who.host.casefold() or wanted in printable(who.label).casefold()
            for who in (*lock.holders, *lock.waiters)
        )


_PLAIN = Filter()


def names_match(pattern: str, name: str) -> bool:
    """Whether a name on the server matches a pattern, as it stands or as code gives names.

    See `matches`.
    """
    return any(matches(form, name) for form in both_forms(pattern))


def names_like(text: str, name: str) -> bool:
    """Whether a name on the server contains the text, in upper or lower case.

    Or whether it is what code calls by this text.

    With an asterisk, see `names_match`.
    """
    if WILDCARD in text:
        return names_match(text, name)
    if name in both_forms(text):
        return True
    wanted = text.casefold()
    # People type what they see. Of a control character they see its escape.
    return wanted in name.casefold() or (
        not name.isprintable() and wanted in printable(name).casefold()
    )


class LockState(NamedTuple):
    """What is going on with one lock.

    Attributes:
        case: One word for it, as of now.
        deadlock: When one of its waits was ended to break a deadlock, by the server's clock, in
            seconds since 1970; None: none was, or long ago.
        rank: 0 for trouble, 1 for a convoy, 2 if somebody waits, and 3 for all others.
    """

    case: Case
    deadlock: float | None
    rank: int

    @classmethod
    def of(cls, lock: Summary, lately: Recent, deadlock: float | None) -> LockState:
        """Return the state of a lock."""
        case = case_of(lock, lately.usual)
        stale = case is Case.STALE and lock.waiting  # else, perhaps, nobody wants it renewed
        long_wait = lock.waiting and lock.oldest_wait >= LONG_WAIT
        if case in {Case.GONE, Case.LONG} or stale or long_wait or deadlock is not None:
            return cls(case, deadlock, 0)
        return cls(case, deadlock, 1 if case is Case.CONVOY else 2 if lock.waiting else 3)


@dataclass(frozen=True, slots=True)
class Search:
    """The locks that match, in order; `len` says how many.

    Attributes:
        survey: The locks that were looked at, whether they match or not.
        found: Those that match, in order.
        recent: What is usual, and what went wrong, in the last hour.
        complete: Whether all that match were found.
        states: What is going on with each lock that was looked at, by name.
    """

    survey: Survey
    found: Sequence[Summary]
    recent: Recent
    complete: bool
    states: Mapping[str, LockState]
    _using: str | None

    def __len__(self) -> int:
        return len(self.found)

    def details(self, locks: Iterable[Summary]) -> list[LockInfo]:
        """Return some of the locks with their details.

        Blocks for some round trips. A lock that has become free meanwhile is missing.

        Raises:
            LockBackendError: Redis could not be asked.
        """
        return inspection.locks(names=[lock.name for lock in locks], using=self._using)


def search(
    matching: Filter,
    *,
    order: str = TROUBLE,
    using: str | None = None,
    least: int = 0,
    read: Callable[..., Survey] = survey,
) -> Search:
    """Look for locks that somebody holds or waits for; blocks for some round trips.

    Args:
        matching: Which locks.
        order: One of `ORDERS`.
        using: The server, as for `inspection.locks`.
        least: How many locks to look at, at least. Below that, it is enough for a page of trouble;
            for anything else, `survey.MOST`.
        read: What reads the survey.

    Raises:
        LockBackendError: Redis could not be asked.
        ValueError: There is no such order.
    """
    one_of(*ORDERS)(order, "order")
    named = matching.named
    one = named is not None and named.alone
    few = matching.is_plain and order == TROUBLE
    most = FEW if one else max(least, FEW if few else MOST)
    everything = read(using=using, most=most, named=named)
    lately = recent(using=using)
    since = lately.deadlocked(everything.now - RECENT)
    states = {
        lock.name: LockState.of(lock, lately, since.get(lock.name)) for lock in everything.locks
    }
    matching_locks = [lock for lock in everything.locks if matching.keeps(lock)]
    if order == TROUBLE:
        matching_locks.sort(key=lambda lock: _trouble(lock, states[lock.name], lately))
    else:
        matching_locks.sort(key=_KEYS[order])
    return Search(everything, matching_locks, lately, everything.whole or one, states, using)


def _trouble(lock: Summary, state: LockState, lately: Recent) -> tuple[int, float, float, float]:
    over = excess(lock.held_for, lately.usual(lock.name))
    return state.rank, -lock.oldest_wait, -over, -lock.held_for


@dataclass(frozen=True, slots=True)
class Group:
    """Locks whose names differ only in numbers and ids.

    Attributes:
        pattern: Their names, with an asterisk for what differs.
        locks: How many locks there are.
        contended: How many of them somebody waits for.
        crowd: How many wait for them, and in how many places.
        oldest_wait: Seconds for which the first of these waits.
        held_for: Seconds of the longest hold.
        gone: How many of them have a holder whose process has died or is cut off.
    """

    pattern: str
    locks: int
    contended: int
    crowd: Crowd
    oldest_wait: float
    held_for: float
    gone: int

    @property
    def waiting(self) -> int:
        """How many waiters they have, or may have."""
        return self.crowd.most


def groups(locks: Iterable[Summary]) -> list[Group]:
    """Return the locks by the pattern of their names, trouble first."""
    by_pattern: dict[str, list[Summary]] = {}
    for lock in locks:
        by_pattern.setdefault(pattern_of(lock.name), []).append(lock)
    alike_groups = [
        Group(
            pattern,
            len(alike),
            sum(lock.waiting > 0 for lock in alike),
            crowd(alike),
            max(lock.oldest_wait for lock in alike),
            max(lock.held_for for lock in alike),
            sum(map(_is_gone, alike)),
        )
        for pattern, alike in by_pattern.items()
    ]
    return sorted(
        alike_groups,
        key=lambda group: (
            not group.waiting,
            -group.oldest_wait,
            not group.gone,
            -group.held_for,
            group.pattern,
        ),
    )


def _is_gone(lock: Summary) -> bool:
    return lock.gone > 0 and not lock.name.startswith(QUEUED)
