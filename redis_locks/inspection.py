"""Locks as rows: who holds them, who waits for them, and a way to end a hold from outside.

Each lock is read at one instant; a listing reads its locks one after the other. What is
returned is the past: to act on it, use tokens, as `release` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from redis_locks import store
from redis_locks.backends import Backend, backend_for
from redis_locks.claims import Claim, Who
from redis_locks.drivers.base import Driver, Link, LinkBroken, Unreachable, run_blocking
from redis_locks.exceptions import LockBackendError
from redis_locks.keys import validate_name
from redis_locks.store import Snapshot

T = TypeVar("T")

MOST_WAITERS_LISTED = 10
"""How many waiters of each lock `locks` returns."""

MOST_WAITERS = 1000
"""How many waiters `lock` returns."""

_CHUNK = 100
_NAMES = 5000
_TRIES = 3
_UNKNOWN = Who(host="", pid=0, unit="", label="")


@dataclass(frozen=True, slots=True)
class HolderInfo:
    """One hold; times in seconds. Texts are empty and numbers 0 where they are not known.

    `lease` is what the holder asked for when acquiring, and what each renewal renews to.
    """

    token: str
    fencing_token: int
    held_for: float
    lease_left: float
    mode: str
    host: str
    pid: int
    unit: str
    label: str
    lease: float = 0.0

    def __str__(self) -> str:
        return str(Who(self.host, self.pid, self.unit, self.label))


@dataclass(frozen=True, slots=True)
class WaiterInfo:
    """One place in the queue; `waited` in seconds. Unknown details as in `HolderInfo`."""

    token: str
    waited: float
    mode: str
    host: str
    pid: int
    unit: str
    label: str

    def __str__(self) -> str:
        return str(Who(self.host, self.pid, self.unit, self.label))


@dataclass(frozen=True, slots=True)
class LockInfo:
    """One lock: its living holders, the first of its queue in order, and how many wait in all.

    `waiting` counts waiters that died, too, until the next hand-off skips them. `at` is when
    it was read, by the server's clock, in seconds since 1970.
    """

    name: str
    mode: str
    holders: tuple[HolderInfo, ...]
    waiters: tuple[WaiterInfo, ...]
    waiting: int
    at: float = 0.0


def names(*, using: str | None = None) -> list[str]:
    """Return the names of the locks that somebody holds or waits for, sorted; blocks.

    Much cheaper than `locks`: 100,000 names take a tenth of a second, in round trips that
    keep the server busy for some milliseconds each. A lock that has just become free may be
    among them.

    Args:
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
    """
    backend = backend_for(using)
    return run_blocking(_names(backend, backend.driver))


def locks(
    *, using: str | None = None, limit: int | None = None, names: Sequence[str] | None = None
) -> list[LockInfo]:
    """Return the locks that somebody holds or waits for, by name; blocks for some round trips.

    Args:
        using: The server: a CACHES alias, a URL or a dotted path; None is REDIS_LOCKS["CONNECTION"].
        limit: Most locks to return, whichever they are; None for all.
        names: Look only at these locks, and return them in this order; None for all by name.

    Raises:
        LockBackendError: Redis could not be asked.
        ValueError: `limit` is negative.
    """
    backend = backend_for(using)
    return run_blocking(_locks(backend, backend.driver, limit, names))


async def alocks(
    *, using: str | None = None, limit: int | None = None, names: Sequence[str] | None = None
) -> list[LockInfo]:
    """Return the locks that somebody holds or waits for; see `locks`."""
    backend = backend_for(using)
    return await _locks(backend, (await backend.of_loop())[0], limit, names)


def lock(name: str, *, using: str | None = None) -> LockInfo | None:
    """Return one lock, or None when nobody holds it or waits for it; blocks for a round trip.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    backend = backend_for(using)
    return run_blocking(_lock(backend, backend.driver, name))


async def alock(name: str, *, using: str | None = None) -> LockInfo | None:
    """Return one lock, or None; see `lock`."""
    backend = backend_for(using)
    return await _lock(backend, (await backend.of_loop())[0], name)


def release(name: str, *, using: str | None = None, tokens: Collection[str] | None = None) -> int:
    """Force-release a lock, hand it on, and return how many holds were ended; blocks.

    A holder that is cut off learns of it at its next renewal; until then it goes on working.
    Whoever holds the lock next, even a moment later, is never touched.

    Args:
        name: The lock.
        using: The server, as for `locks`.
        tokens: The holds to end; None for those of this moment.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    backend = backend_for(using)
    return run_blocking(_release(backend, backend.driver, name, tokens))


async def arelease(
    name: str, *, using: str | None = None, tokens: Collection[str] | None = None
) -> int:
    """Force-release a lock; see `release`."""
    backend = backend_for(using)
    return await _release(backend, (await backend.of_loop())[0], name, tokens)


def cancel(name: str, token: str, *, using: str | None = None) -> bool:
    """Cancel a wait: the waiter gets a `LockError` that says so at once. Blocks for a round trip.

    A set of locks is waited for as one. Returns False if the token does not wait for the lock:
    it may have been granted meanwhile, or have given up.

    Args:
        name: The lock.
        token: The waiter, as in `WaiterInfo`.
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    backend = backend_for(using)
    keys = backend.keys(validate_name(name))
    return run_blocking(
        _ask(backend, backend.driver, partial(store.cancel, keys=keys, token=token))
    )


async def acancel(name: str, token: str, *, using: str | None = None) -> bool:
    """Cancel a wait; see `cancel`."""
    backend = backend_for(using)
    keys = backend.keys(validate_name(name))
    driver, _ = await backend.of_loop()
    return await _ask(backend, driver, partial(store.cancel, keys=keys, token=token))


async def _locks(
    backend: Backend, driver: Driver, limit: int | None, names: Sequence[str] | None
) -> list[LockInfo]:
    if limit is not None and limit < 0:
        msg = f"limit must be 0 or more, or None for all, not {limit}"
        raise ValueError(msg)
    if names is None:
        indexed: list[str] = []
        for keys in backend.partitions():
            left = None if limit is None else limit - len(indexed)
            indexed += await _ask(backend, driver, partial(store.names, keys=keys, most=left))
        names = sorted(indexed)
    names = names[:limit]
    found: list[LockInfo] = []
    for start in range(0, len(names), _CHUNK):
        found += await _inspect(backend, driver, names[start : start + _CHUNK], MOST_WAITERS_LISTED)
    return found


async def _names(backend: Backend, driver: Driver) -> list[str]:
    found: set[str] = set()
    for keys in backend.partitions():
        ends_ms = skip = 0
        while True:
            part, last = await _ask(
                backend,
                driver,
                partial(store.names_part, keys=keys, ends_ms=ends_ms, skip=skip, most=_NAMES),
            )
            found.update(part)
            if len(part) < _NAMES:
                break
            # From the last lease end on, and not by rank: a renewal between two parts then
            # lets a name come twice but leaves none out. Only a part that is all of one end
            # is skipped by number.
            ends_ms, skip = (last, skip + len(part)) if last == ends_ms else (last, 0)
    return sorted(found)


async def _lock(backend: Backend, driver: Driver, name: str) -> LockInfo | None:
    found = await _inspect(backend, driver, [validate_name(name)], MOST_WAITERS)
    return found[0] if found else None


async def _release(
    backend: Backend, driver: Driver, name: str, tokens: Collection[str] | None
) -> int:
    if tokens is None:
        info = await _lock(backend, driver, name)
        tokens = [holder.token for holder in info.holders] if info else []
    keys = backend.keys(validate_name(name))
    ended = 0
    for token in tokens:
        action = partial(store.release, keys=keys, token=token)
        ended += await _ask(backend, driver, action)
    return ended


async def _inspect(
    backend: Backend, driver: Driver, names: Sequence[str], most_waiters: int
) -> list[LockInfo]:
    """Return those of the locks that somebody holds or waits for."""
    locks = [backend.keys(name) for name in names]
    snapshots = await _ask(backend, driver, partial(store.inspect, locks=locks, most=most_waiters))
    return [
        _info(name, snapshot)
        for name, snapshot in zip(names, snapshots, strict=True)
        if snapshot.holders or snapshot.waiting
    ]


async def _ask(
    backend: Backend, driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]]
) -> T:
    """Run `action`, again on a new link if one breaks; everything here is safe to repeat."""
    failure: LinkBroken | None = None
    for _ in range(_TRIES):
        try:
            link = await driver.checkout()
            try:
                return await action(link)
            finally:
                driver.checkin(link)
        except Unreachable as error:
            raise LockBackendError(str(error)) from error
        except LinkBroken as error:
            failure = error
            driver.drop_idle()
    msg = f"{backend.description} does not answer: {failure}"
    raise LockBackendError(msg) from failure


def _info(name: str, snapshot: Snapshot) -> LockInfo:
    holders = tuple(_holder(snapshot.at_ms, *holder) for holder in snapshot.holders)
    waiters = tuple(_waiter(snapshot.at_ms, *waiter) for waiter in snapshot.waiters)
    modes = [holder.mode for holder in holders] + [waiter.mode for waiter in waiters]
    at = snapshot.at_ms / 1000
    return LockInfo(name, modes[0] if modes else "", holders, waiters, snapshot.waiting, at)


def _holder(now_ms: int, token: str, ends_ms: int, text: str) -> HolderInfo:
    claim = _claim(text, now_ms)
    held_for, lease_left = _seconds(now_ms - claim.since_ms), _seconds(ends_ms - now_ms)
    who, lease = claim.who or _UNKNOWN, claim.lease_ms / 1000
    return HolderInfo(token, claim.fencing_token, held_for, lease_left, claim.mode, *who, lease)


def _waiter(now_ms: int, token: str, text: str) -> WaiterInfo:
    claim = _claim(text, now_ms)
    who = claim.who or _UNKNOWN
    return WaiterInfo(token, _seconds(now_ms - claim.since_ms), claim.mode, *who)


def _claim(text: str, now_ms: int) -> Claim:
    return Claim.parse(text) or Claim(0, now_ms, "", None)


def _seconds(milliseconds: int) -> float:
    # Not below 0, should the server's clock have been set back meanwhile.
    return max(0, milliseconds) / 1000
