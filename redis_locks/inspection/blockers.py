"""Trees of sessions that block each other: the holder at the root, its waiters below it.

A session is a thread or a task of one process. The admin and `manage.py locks blocking` show the
trees.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from redis_locks.connections.backends import blocking_answer
from redis_locks.inspection import HolderInfo, LockInfo, WaiterInfo, locks
from redis_locks.inspection.queries import read_whole
from redis_locks.inspection.survey import FEW_QUEUES, queues
from redis_locks.inspection.termination import fits

DEEPEST = 40
"""How many levels a tree has below its root. No screen shows more, and recursion has a limit."""

MOST_LOCKS_SEARCHED = 300
"""How many locks with waiters are looked at, to say who blocks whom around one of them."""

MOST_PAIRS = 10_000
"""How many pairs of a waiter and a holder of one lock are looked at: a thousand of each would be a
million.
"""

MOST_PAIRS_NEARBY = 2_000
"""How many pairs of crowded locks around one of them are looked at. A page does this every two
seconds.
"""


@dataclass(frozen=True, slots=True)
class Blocked:
    """One waiter and one holder that it waits for. A lock gives one for each pair of them.

    Attributes:
        lock: The lock.
        waiter: The waiter.
        holder: The holder.
        is_sure: Whether the waiter, or one ahead of it, cannot go on before the holder does. A
            permit may come free with another holder.
    """

    lock: str
    waiter: WaiterInfo
    holder: HolderInfo
    is_sure: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A session in a tree of the sessions that wait for it.

    Attributes:
        who: The session: a holder at the root, a waiter below it.
        lock: The lock that it waits for; None at the root.
        blocks: The sessions that wait for locks that it holds, in queue order.
        repeated: Whether another place in the trees shows it with what it blocks.
        deadlocked: Whether it surely waits for itself, through the sessions above it.
        cut: Whether another tree goes on with what it blocks, because this one is deep enough.
    """

    who: HolderInfo | WaiterInfo
    lock: str | None
    blocks: tuple[Node, ...]
    repeated: bool = False
    deadlocked: bool = False
    cut: bool = False

    @property
    def has_deadlock(self) -> bool:
        """Whether a session in the tree waits for itself."""
        return self.deadlocked or any(below.has_deadlock for below in self.blocks)

    def first_blocked(self, most: int) -> tuple[list[Node], int]:
        """Return what it blocks, and how many are left out.

        Of those that block nobody, it has `most`.
        """
        ends = [below for below in self.blocks if below.is_end]
        left_out = set(map(id, ends[most:]))
        return [below for below in self.blocks if id(below) not in left_out], len(left_out)

    @property
    def is_end(self) -> bool:
        """Whether it only waits."""
        return not (self.blocks or self.repeated or self.deadlocked or self.cut)

    def waits_for(self, name: str) -> bool:
        """Whether a session in the tree waits for the lock `name`."""
        return self.lock == name or any(below.waits_for(name) for below in self.blocks)


def blocked(locks: Iterable[LockInfo]) -> list[Blocked]:
    """Return each waiter with each holder of what it waits for, in queue order."""
    return [pair for lock in locks for pair in _blocked_at(lock)]


def _blocked_at(lock: LockInfo) -> Iterator[Blocked]:
    in_the_way: set[str] = set()
    for waiter in lock.waiters:
        in_the_way.update(each.token for each in lock.holders if not fits(waiter, [each]))
        for holder in lock.holders:
            yield Blocked(lock.name, waiter, holder, holder.token in in_the_way)


def trees(pairs: Sequence[Blocked]) -> list[Node]:
    """Return a tree for each session that blocks others and is not blocked itself.

    In a deadlock every session is blocked, so one of them becomes a root too. A chain longer than
    `DEEPEST` goes on in another tree, whose root is the last session of the tree before.
    """
    return _Forest(pairs).grow()


def around(lock: LockInfo, *, using: str | None = None) -> tuple[list[Node], bool]:
    """Return the trees in which a session waits for a lock, and whether they have all that wait.

    Blocks.

    Of the lock itself, the waiters count that `lock` has, and its first `MOST_PAIRS` pairs. Only
    locks that are waited for are read, of these `MOST_LOCKS_SEARCHED` at most: those with long
    waits first. Their crowds are read up to `MOST_PAIRS_NEARBY` pairs in all; of further crowds,
    those who come first.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    listing = queues(using=using, most=FEW_QUEUES)
    known = [name for name in listing.contended if name != lock.name]
    others = locks(names=known[:MOST_LOCKS_SEARCHED], using=using)
    left, crowds = MOST_PAIRS_NEARBY, []
    for other in others:
        pairs = other.waiting * other.holding
        if not _is_whole(other) and pairs <= left:
            left -= pairs
            crowds.append(other.name)
    read = blocking_answer(using, partial(read_whole, names=crowds))
    looked_at = [other for other in others if other.name not in crowds] + read
    whole = listing.whole and len(known) <= MOST_LOCKS_SEARCHED and all(map(_is_whole, looked_at))
    most = max(1, MOST_PAIRS // max(1, len(lock.holders)))
    roots = trees(blocked([replace(lock, waiters=lock.waiters[:most]), *looked_at]))
    return [root for root in roots if root.waits_for(lock.name)], whole


def _is_whole(lock: LockInfo) -> bool:
    return len(lock.waiters) >= lock.waiting and len(lock.holders) >= lock.holding


class _Forest:
    def __init__(self, pairs: Sequence[Blocked]) -> None:
        self._waits = {pair.waiter.session for pair in pairs}
        self._pairs: dict[str, list[Blocked]] = {}
        for pair in pairs:
            self._pairs.setdefault(pair.holder.session, []).append(pair)
        self._grown: set[str] = set()
        self._cut: deque[str] = deque()
        """The last sessions of trees that are deep enough."""

    def grow(self) -> list[Node]:
        free = [session for session in self._pairs if session not in self._waits]
        roots = []
        for first in (*free, *self._pairs):
            self._cut.append(first)
            while self._cut:
                session = self._cut.popleft()
                if session not in self._grown:
                    roots.append(self._node(self._pairs[session][0].holder, None, (), DEEPEST))
        return roots

    def _node(
        self, who: HolderInfo | WaiterInfo, lock: str | None, above: tuple[str, ...], levels: int
    ) -> Node:
        """Return a session below those that are `above`, for each of which it surely waits."""
        session = who.session
        if session in self._grown:
            deadlocked = session in above
            return Node(who, lock, (), repeated=session in self._pairs, deadlocked=deadlocked)
        if not levels and session in self._pairs:
            self._cut.append(session)
            return Node(who, lock, (), cut=True)
        self._grown.add(session)
        path = (*above, session)
        below = (
            self._node(pair.waiter, pair.lock, path if pair.is_sure else (), levels - 1)
            for pair in self._pairs.get(session, ())
        )
        return Node(who, lock, tuple(below))
