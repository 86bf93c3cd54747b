"""Summaries of the locks of a server.

Of all of them, or of those that matter most where they are too many.

Whatever the number of locks, a survey reads no more than its bounds. First come locks that the
caller names, then those with long waits, which their waiters note on the server. Then come others
with waiters, and the leases that end first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from redis_locks.conf.name_function import both_forms
from redis_locks.connections.backends import Backend, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.inspection import replies
from redis_locks.inspection.queries import indexed_in, read_index, read_whole
from redis_locks.inspection.replies import Summary
from redis_locks.inspection.snapshots import LockInfo
from redis_locks.values.keys import Keys, validate_name

FEW: Final = 500
"""How many summaries are read for a page that shows trouble first, or whole queues for a tree of
blockers.
"""

FEW_QUEUES: Final = 1_000
"""Of how many locks the lengths of the queues are read for it."""

MOST: Final = 10_000
"""How many summaries, or lengths of queues, are read for filters, groups, other orders, alerts and
metrics.
"""

MOST_NAMES: Final = 1_000_000
"""How many names a search by name goes through. That takes about a second."""

_LONG_WAITS = 500
"""How many locks with long waits are read: those with the oldest."""

_PART = 25
"""How many locks one script looks at, so that none keeps the server busy for more than some
milliseconds.
"""


class Named(NamedTuple):
    """Which names a search asks for.

    Attributes:
        text: What was asked for.
        test: Whether a name is one of them, given the text.
        literal: Whether the text is one of these names itself, if there is such a lock.
        alone: Whether it is the only one.
        most: How many of them are read at most; None: as many as the survey reads.
    """

    text: str
    test: Callable[[str, str], bool]
    literal: bool
    alone: bool = False
    most: int | None = None


class Crowd(NamedTuple):
    """The waiters of some locks.

    A waiter that wants several locks may have a place in the queue of each.

    Attributes:
        waiters: How many there are; None: not known, as there are too many places.
        places: How many places in queues they have.
    """

    waiters: int | None
    places: int

    @property
    def most(self) -> int:
        """How many there are, or may be."""
        return self.places if self.waiters is None else self.waiters


def crowd(locks: Iterable[Summary], others: Iterable[int] = ()) -> Crowd:
    """Return how many wait for these locks; `others` are queues of locks that have no summary."""
    places = [lock for lock in locks if lock.waiting]
    queues = [waiting for waiting in others if waiting]
    wanted = Counter(token for lock in places for token in lock.several)
    count = sum(lock.waiting for lock in places) + sum(queues)
    # Whoever stands in a place that was not looked at has another one only if that is known, or not
    # looked at either.
    unseen = [lock for lock in places if lock.unseen]
    known = sum(len(lock.several) for lock in places) - sum(len(lock.several) for lock in unseen)
    dark = len(unseen) + len(queues)
    if dark > 1 or (dark == 1 and known):
        return Crowd(None, count)
    return Crowd(count - wanted.total() + len(wanted), count)


@dataclass(frozen=True, slots=True)
class Survey:
    """Locks that somebody holds or waits for, by name.

    Attributes:
        at: The server's time when it was read, in seconds since 1970.
        locks: Their summaries.
        total: How many locks there are.
        crowd: How many wait, and in how many places.
        contended: How many locks have waiters.
        whole: Whether no lock is left out.
        counted: Whether all waiters are counted; else there may be more.
        age: How many seconds ago it was read, if somebody kept it.
    """

    at: float
    locks: tuple[Summary, ...]
    total: int
    crowd: Crowd
    contended: int
    whole: bool
    counted: bool
    age: float = 0.0

    @property
    def waiting(self) -> int:
        """How many waiters there are, or may be."""
        return self.crowd.most

    @property
    def now(self) -> float:
        """The server's time now."""
        return self.at + self.age

    @property
    def held(self) -> int:
        """How many locks somebody holds; one that is left out counts as held."""
        return self.total - sum(lock.holding == 0 for lock in self.locks)

    @property
    def oldest(self) -> Summary | None:
        """The lock with the oldest wait; None if nobody waits."""
        return max(
            (lock for lock in self.locks if lock.waiting),
            key=lambda lock: lock.oldest_wait,
            default=None,
        )


class Queues(NamedTuple):
    """How many wait, and for which locks.

    Attributes:
        lengths: The length of the queue of each lock that was looked at, in the order in which
            leases end.
        noted: Locks with long waits, oldest first.
        total: How many locks there are.
        whole: Whether all of them were looked at.
    """

    lengths: dict[str, int]
    noted: tuple[str, ...]
    total: int
    whole: bool

    @property
    def waiting(self) -> int:
        """How many waiters are known of."""
        return sum(self.lengths.values()) + sum(name not in self.lengths for name in self.noted)

    @property
    def contended(self) -> tuple[str, ...]:
        """The names of the locks that are waited for, or were a moment ago, long waits first."""
        others = (name for name, waiting in self.lengths.items() if waiting)
        return tuple(dict.fromkeys((*self.noted, *others)))


def survey(*, using: str | None = None, most: int = MOST, named: Named | None = None) -> Survey:
    """Read summaries of all locks, or of as many as the bounds allow.

    Blocks for a round trip per 25 summaries, and one per 500 queues, or names.

    Args:
        using: The server, as for `locks`.
        most: How many summaries to read.
        named: Which locks to look for even if there are more.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    return blocking_answer(using, partial(_survey, most=most, named=named))


def queues(*, using: str | None = None, most: int = MOST) -> Queues:
    """Return the queues of all locks, or of `most`, and which have long waits.

    Blocks for a round trip per 500.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    return blocking_answer(using, partial(_queues, most=most))


def contended(*, using: str | None = None) -> tuple[list[LockInfo], bool]:
    """Return locks that somebody waits for, with their whole queues, and whether these are all.

    Blocks.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    return blocking_answer(using, _contended)


async def _survey(backend: Backend, driver: Driver, *, most: int, named: Named | None) -> Survey:
    index = await _queues(backend, driver, most=max(most, FEW_QUEUES))
    chosen = tuple(index.lengths)
    whole = index.whole and len(chosen) <= most
    if not whole:
        asked = await _names(backend, driver, named, named.most or most) if named else ()
        others = () if named and named.alone else (*index.contended, *chosen)
        chosen = tuple(islice(dict.fromkeys((*asked, *others)), most))
    parts = [
        await backend.ask(
            driver, partial(replies.summaries, keys=part, in_cluster=backend.in_cluster)
        )
        for part in _parts(backend, chosen)
    ]
    # Each part was read at a time of its own. What is told of all of them is as of the last one, so
    # that a lock that stays as it is has waited since the same moment in each survey.
    at_ms = max(read_ms for read_ms, _ in parts)
    locks = {
        name: lock.later((at_ms - read_ms) / 1000)
        for read_ms, read in parts
        for name, lock in read.items()
    }
    waiting = index.lengths | {lock.name: lock.waiting for lock in locks.values()}
    return Survey(
        at_ms / 1000,
        tuple(locks[name] for name in sorted(locks)),
        len(locks) if whole else index.total,
        crowd(locks.values(), (length for name, length in waiting.items() if name not in locks)),
        sum(map(bool, waiting.values())),
        whole,
        index.whole,
    )


def _parts(backend: Backend, names: tuple[str, ...]) -> Iterator[Keys]:
    """Yield the KEYS of scripts that read these locks; at least one, which tells the time."""
    index, *_ = backend.partitions()
    if not names:
        yield index
        return
    for _, (index_key, *locks) in backend.groups(names):
        for start in range(0, len(locks), _PART):
            yield (index_key, *locks[start : start + _PART])


async def _queues(backend: Backend, driver: Driver, *, most: int) -> Queues:
    partitions = backend.partitions()
    total, since = 0, dict[str, int]()
    for keys in partitions:
        ask = partial(replies.long_waits, keys=keys, most=_LONG_WAITS)
        listed, noted = await backend.ask(driver, ask)
        total += listed
        since |= noted
    whole = total <= most
    share = None if whole else -(-most // len(partitions))
    lengths = dict[str, int]()
    for keys in partitions:
        lengths |= await indexed_in(backend, driver, keys, most=share, lengths=True)
    # Of those that were looked at, it is known whether somebody still waits.
    still = (name for name in since if lengths.get(name, not whole))
    oldest = sorted(still, key=lambda name: since[name])[:_LONG_WAITS]
    return Queues(lengths, tuple(oldest), len(lengths) if whole else total, whole)


async def _names(backend: Backend, driver: Driver, named: Named, most: int) -> Sequence[str]:
    """Return names that a search asks for, `most` at most, and the literal one first."""
    matching: dict[str, None] = {}
    if named.literal:
        with suppress(ValueError):
            matching |= dict.fromkeys(both_forms(validate_name(named.text)))
    if named.alone:
        return tuple(matching)
    partitions = backend.partitions()
    for keys in partitions:
        looked = 0

        def take(names: dict[str, int]) -> bool:
            nonlocal looked
            looked += len(names)
            matching.update(dict.fromkeys(name for name in names if named.test(named.text, name)))
            return looked >= MOST_NAMES // len(partitions) or len(matching) >= most

        await read_index(backend, driver, keys, take, lengths=False)
    return tuple(islice(matching, most))


async def _contended(backend: Backend, driver: Driver) -> tuple[list[LockInfo], bool]:
    index = await _queues(backend, driver, most=MOST)
    names = index.contended[:FEW]
    locks = await read_whole(backend, driver, sorted(names))
    whole = index.whole and len(names) == len(index.contended)
    return [lock for lock in locks if lock.waiting], whole
