"""Read the locks of a server: all names, all queue lengths, some locks, or one lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice

from redis_locks.conf.name_function import server_name
from redis_locks.connections.backends import Backend, Question, async_answer, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.inspection import replies
from redis_locks.inspection.parameters import validate_listed
from redis_locks.inspection.replies import NO_PLACE, Snapshot
from redis_locks.inspection.snapshots import LockInfo, lock_info
from redis_locks.values.arguments import limit as most
from redis_locks.values.keys import Keys, validate_name

MOST_WAITERS_LISTED = 10
"""How many waiters of each lock, and how many holders, `locks` returns."""

MOST_WAITERS = 1000
"""How many waiters, and how many holders, `lock` returns."""

_CHUNK = 100
_NAMES = 500
_PARTIES = 300
"""How many holders and waiters of one lock a script returns, so that it never keeps the server busy
for long.
"""


def names(*, using: str | None = None) -> list[str]:
    """Return the names of the locks that somebody holds or waits for, sorted; blocks.

    Much cheaper than `locks`: 100,000 names take 0.1 s, in round trips that keep the server busy
    for some milliseconds each. The list may contain a lock that has just become free.

    Args:
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    return blocking_answer(using, read_names)


async def anames(*, using: str | None = None) -> list[str]:
    """Return the names of the locks that somebody holds or waits for; see `names`."""
    return await async_answer(using, read_names)


def locks(
    *, using: str | None = None, limit: int | None = None, names: Sequence[str] | None = None
) -> list[LockInfo]:
    """Return the locks that somebody holds or waits for, by name; blocks for some round trips.

    A version with another protocol may use a lock. Then only its lease is known, and the label of
    its only holder says the number of that protocol. `lock` raises for it.

    Args:
        using: The server: a name in SERVERS, a CACHES alias, a URL or a dotted path; None is the
            default.
        limit: How many locks to return at most, whichever they are; None for all.
        names: Read only these locks, and return them in this order; None for all, by name.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `limit` is not a whole number, or `names` not a list of strings.
        ValueError: `limit` is negative.
    """
    return blocking_answer(using, _locks_of(limit, names))


async def alocks(
    *, using: str | None = None, limit: int | None = None, names: Sequence[str] | None = None
) -> list[LockInfo]:
    """Return the locks that somebody holds or waits for; see `locks`."""
    return await async_answer(using, _locks_of(limit, names))


def lock(name: str, *, using: str | None = None) -> LockInfo | None:
    """Return one lock, or None when nobody holds it or waits for it; blocks for a round trip.

    Raises:
        ProtocolMismatch: A version of this package with another protocol uses the lock.
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    return blocking_answer(using, partial(read_lock, name=server_name(validate_name(name))))


def whole_lock(name: str, *, using: str | None = None) -> LockInfo | None:
    """Return one lock with all its holders and waiters, for those who are to end them.

    See `lock`.
    """
    return blocking_answer(
        using, partial(read_lock, name=server_name(validate_name(name)), most=None)
    )


async def alock(name: str, *, using: str | None = None) -> LockInfo | None:
    """Return one lock, or None; see `lock`."""
    return await async_answer(using, partial(read_lock, name=server_name(validate_name(name))))


def _locks_of(limit: int | None, names: Sequence[str] | None) -> Question[list[LockInfo]]:
    return partial(_locks, limit=most(limit, lowest=0), names=validate_listed(names))


async def _locks(
    backend: Backend, driver: Driver, *, limit: int | None, names: Sequence[str] | None
) -> list[LockInfo]:
    if names is None:
        names = await read_names(backend, driver, limit)
    names = names[:limit]
    in_use: list[LockInfo] = []
    for start in range(0, len(names), _CHUNK):
        part = names[start : start + _CHUNK]
        in_use += _in_use(part, await _snapshots(backend, driver, part, MOST_WAITERS_LISTED))
    return in_use


async def read_names(backend: Backend, driver: Driver, most: int | None = None) -> list[str]:
    """Return the names in the indexes of all partitions, sorted; `most` at most, None: all."""
    return list(await read_queues(backend, driver, most, lengths=False))


async def read_queues(
    backend: Backend, driver: Driver, most: int | None = None, *, lengths: bool = True
) -> dict[str, int]:
    """Return the length of the queue of each lock of all partitions, or 0, sorted by name."""
    by_name: dict[str, int] = {}
    for keys in backend.partitions():
        left = None if most is None else most - len(by_name)
        by_name |= await indexed_in(backend, driver, keys, most=left, lengths=lengths)
    return dict(sorted(by_name.items()))


async def indexed_in(
    backend: Backend, driver: Driver, keys: Keys, *, most: int | None, lengths: bool
) -> dict[str, int]:
    """Return names of one partition, at most `most` (None: all), each with the length of its queue.

    They come in the order in which their leases end.
    """
    lengths_by_name: dict[str, int] = {}

    def take(names: dict[str, int]) -> bool:
        lengths_by_name.update(names)
        return most is not None and len(lengths_by_name) >= most

    if most != 0:
        await read_index(backend, driver, keys, take, lengths=lengths)
    return dict(islice(lengths_by_name.items(), most))


async def read_index(
    backend: Backend,
    driver: Driver,
    keys: Keys,
    take: Callable[[dict[str, int]], bool],
    *,
    lengths: bool,
) -> None:
    """Read the index of one partition in parts: names, each with the length of its queue, or 0.

    `take` gets each part, and returns whether that is enough.
    """

    async def part(ends_ms: int, skip: int) -> tuple[int, int]:
        names, last = await backend.ask(
            driver,
            lambda link: replies.names_part(link, keys, ends_ms, skip, _NAMES, lengths=lengths),
        )
        return 0 if take(names) else len(names), last

    await in_parts(part, _NAMES)


async def in_parts(read: Callable[[int, int], Awaitable[tuple[int, int]]], most: int) -> None:
    """Read an index in parts of `most` names.

    `read` gets the earliest lease end and how many names to skip. It returns how many names there
    were, and the last lease end.
    """
    ends_ms = skip = 0
    while True:
        count, last = await read(ends_ms, skip)
        if count < most:
            return
        # The next part begins at the last lease end, not at a rank: then a renewal between two
        # parts may repeat a name, but omits none. Ranks skip only a part whose leases all end
        # in the same millisecond.
        ends_ms, skip = (last, skip + count) if last == ends_ms else (last, 0)


async def read_lock(
    backend: Backend, driver: Driver, *, name: str, most: int | None = MOST_WAITERS
) -> LockInfo | None:
    """Return one lock, with `most` holders and waiters (None: all).

    None if nobody holds it or waits for it.
    """
    snapshot = await _whole(backend, driver, name, most)
    return next(iter(_in_use([name], [snapshot])), None)


async def read_whole(
    backend: Backend, driver: Driver, names: Sequence[str] | None = None
) -> list[LockInfo]:
    """Return the locks that somebody holds or waits for, each with all its holders and waiters.

    `names`: read only these locks; None for all.
    """
    if names is None:
        names = await read_names(backend, driver)
    in_use: list[LockInfo] = []
    for start in range(0, len(names), _CHUNK):
        part = names[start : start + _CHUNK]
        listed = await _snapshots(backend, driver, part, MOST_WAITERS_LISTED)
        whole = [
            snapshot if snapshot.is_whole else await _whole(backend, driver, name)
            for name, snapshot in zip(part, listed, strict=True)
        ]
        in_use += _in_use(part, whole)
    return in_use


async def holding_tokens(backend: Backend, driver: Driver, name: str) -> list[str]:
    """Return the tokens of all holders of a lock."""
    snapshot = await _whole(backend, driver, name, place=NO_PLACE)
    return [token for token, _, _ in snapshot.holders]


async def _whole(
    backend: Backend, driver: Driver, name: str, most: int | None = None, place: str = "first"
) -> Snapshot:
    """Return a lock with all its holders, and its waiters from a place on, or `most` of both.

    It is read in parts, so it may change meanwhile.
    """
    keys = backend.keys(name)
    holders: dict[str, tuple[str, int, str]] = {}
    waiters: dict[str, str] = {}
    seen = Snapshot(0, 0, 0, (), ())

    async def part(ends_ms: int, skip: int) -> tuple[int, int]:
        nonlocal seen, place
        seen = await backend.ask(
            driver,
            partial(
                replies.inspect_part,
                keys=keys,
                most=_PARTIES,
                place=place,
                ends_ms=ends_ms,
                skip=skip,
            ),
        )
        holders.update((holder[0], holder) for holder in seen.holders)
        waiters.update(seen.waiters)
        enough = most is not None and len(waiters) >= most
        place = NO_PLACE if enough else seen.place
        enough = most is not None and len(holders) >= most
        return 0 if enough else len(seen.holders), seen.holders[-1][1] if seen.holders else ends_ms

    await in_parts(part, _PARTIES)
    while place != NO_PLACE:
        before = place
        await part(seen.holders[-1][1] if seen.holders else 0, 0)
        if place == before:
            raise ValueError(f"the queue goes on at {place!r} again")
    return seen._replace(
        holders=tuple(islice(holders.values(), most)), waiters=tuple(islice(waiters.items(), most))
    )


async def _snapshots(
    backend: Backend, driver: Driver, names: Sequence[str], most: int
) -> list[Snapshot]:
    locks = [backend.keys(name) for name in names]
    return await backend.ask(driver, partial(replies.inspect, locks=locks, most=most))


def _in_use(names: Sequence[str], snapshots: Sequence[Snapshot]) -> list[LockInfo]:
    return [
        lock_info(name, snapshot)
        for name, snapshot in zip(names, snapshots, strict=True)
        if snapshot.holders or snapshot.waiting
    ]
