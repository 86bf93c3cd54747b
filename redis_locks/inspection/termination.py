"""Operators end holds and waits: force-release, cancel, drain."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import methodcaller

from redis_locks.conf.name_function import server_name
from redis_locks.connections.backends import Backend, Question, async_answer, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.drivers.resp import pack
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.parameters import validate_host, validate_tokens, validate_waiter
from redis_locks.inspection.queries import holding_tokens, read_lock
from redis_locks.inspection.sessions import Parties, read_parties_of_host
from redis_locks.inspection.snapshots import HolderInfo, LockInfo, WaiterInfo
from redis_locks.protocol import store
from redis_locks.protocol.callers import new_token
from redis_locks.statistics.collector import collector
from redis_locks.values.arguments import flag
from redis_locks.values.keys import Keys, validate_name
from redis_locks.values.modes import excludes

_AT_ONCE = 100
"""How many holds a script ends, so that it never keeps the server busy for long."""


@dataclass(frozen=True, slots=True)
class ForceReleased:
    """What a force-release did; true if it ended a hold.

    `ended` is the number of holds that it ended, and `tokens` are theirs, as in `HolderInfo`.
    `fencing_token` is above every fencing token that the lock gave out before, and below that of
    the next holder; 0 if no hold was ended. Give it to the protected resource to shut out late
    writes of the ended holders before the next holder comes.
    """

    ended: int
    fencing_token: int
    tokens: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ended > 0


def force_release(
    name: str, *, using: str | None = None, tokens: Collection[str] | None = None
) -> ForceReleased:
    """End the holds of a lock, overtake their fencing tokens, and hand it on; blocks.

    The holder is told at once, if it has held the lock for more than 0.05 s. A holder that cannot
    be reached learns of it from its next renewal. Async code is cancelled in its ``async with``
    block; other code asks `Hold.is_lost`. The next holder is never touched, even if it acquires a
    moment later.

    Args:
        name: The lock.
        using: The server, as for `locks`.
        tokens: The holds to end, by the tokens of their `HolderInfo`; None for all present holds.

    Raises:
        LockBackendError: Redis could not be asked; the holds may have been ended or not.
        TypeError: `name` is not a string, or `tokens` not a list of strings.
        ValueError: `name` cannot name a lock, or `tokens` contains something that is no token.
    """
    return blocking_answer(using, _force_release_of(name, tokens))


async def aforce_release(
    name: str, *, using: str | None = None, tokens: Collection[str] | None = None
) -> ForceReleased:
    """Force-release a lock; see `force_release`."""
    return await async_answer(using, _force_release_of(name, tokens))


def successor(lock: LockInfo, ended: Collection[str]) -> WaiterInfo | None:
    """Return the first waiter, if it gets the lock once some holds have ended.

    `ended` has the tokens of these holds.

    None if nobody waits, or if the holds that stay are in its way. If it waits for several locks,
    it may have to wait on for the others.
    """
    left = [holder for holder in lock.holders if holder.token not in ended]
    if lock.holding > len(lock.holders):
        return None  # whoever is not listed stays
    first = lock.waiters[0] if lock.waiters else None
    return first if first and fits(first, left) else None


def fits(waiter: WaiterInfo, holders: Sequence[HolderInfo]) -> bool:
    """Return whether a waiter can hold the lock beside these holders: `room` of `_modes.lua`."""
    if waiter.mode == "upgrade":
        # It starts from a hold of its own.
        return [holder.session for holder in holders] == [waiter.session]
    if any(excludes(waiter.mode, holder.mode) for holder in holders):
        return False
    modes = [waiter.mode, *(holder.mode for holder in holders)]
    permits = [int(mode.partition(":")[2]) for mode in modes if mode.startswith("permit:")]
    return not permits or len(holders) < min(permits)


def cancel(waiter: WaiterInfo, *, using: str | None = None) -> bool:
    """Cancel a wait: the waiter raises a `LockError` that says so, at once.

    Blocks for a round trip.

    A wait for a set of locks ends as a whole. Returns False if the waiter waits no more: it was
    granted the lock meanwhile, or gave up.

    Args:
        waiter: The wait, as `parties` and `lock` return it.
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked; the wait may have been ended or not.
        TypeError: `waiter` is not a `WaiterInfo`.
        ValueError: Its `lock` cannot name a lock, or its `token` is no token.
    """
    return blocking_answer(using, partial(_cancel, waiter=validate_waiter(waiter)))


async def acancel(waiter: WaiterInfo, *, using: str | None = None) -> bool:
    """Cancel a wait; see `cancel`."""
    return await async_answer(using, partial(_cancel, waiter=validate_waiter(waiter)))


def drain(host: str, *, using: str | None = None, dry_run: bool = False) -> Parties:
    """Cancel all waits of a host, force-release all its holds, and return what was ended.

    Use it for a host that is gone or goes out of service. Stop the programs there first: they may
    acquire locks again at once. Holders and waiters are told as by `force_release` and `cancel`.
    Blocks for a round trip per hundred locks, one per wait and two per hold. After an error or a
    cancellation, drain again: only some holds and waits were ended.

    Args:
        host: The host's name, as holders and waiters show it.
        using: The server, as for `locks`.
        dry_run: Whether to end nothing, and only return what a drain would end.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `host` is not a string, or `dry_run` neither True nor False.
        ValueError: `host` is empty.
    """
    return blocking_answer(
        using, partial(_drain, host=validate_host(host), dry_run=flag(dry_run, "dry_run"))
    )


async def adrain(host: str, *, using: str | None = None, dry_run: bool = False) -> Parties:
    """End all holds and waits of a host; see `drain`."""
    return await async_answer(
        using, partial(_drain, host=validate_host(host), dry_run=flag(dry_run, "dry_run"))
    )


def _force_release_of(name: str, tokens: Collection[str] | None) -> Question[ForceReleased]:
    given = None if tokens is None else validate_tokens(tokens)
    return partial(_force_release, name=server_name(validate_name(name)), tokens=given)


async def _force_release(
    backend: Backend, driver: Driver, *, name: str, tokens: Collection[str] | None
) -> ForceReleased:
    keys = backend.keys(name)
    if tokens is None:
        tokens = await holding_tokens(backend, driver, name)
    left, fencing_token = list(tokens), 0
    ended: list[str] = []
    while left:
        holds, left = left[:_AT_ONCE], left[_AT_ONCE:]
        end = partial(store.force_release, keys=keys, token=new_token(), holds=holds)
        tokens_ended, fence = await backend.ask(driver, end)
        ended += tokens_ended
        fencing_token = max(fencing_token, fence)
    if ended:
        await _tell(backend, driver, keys, ended)
    for _ in ended:
        collector.note_ended(backend.description, name, "force_released")
    return ForceReleased(len(ended), fencing_token, tuple(ended))


async def _tell(backend: Backend, driver: Driver, keys: Keys, tokens: Sequence[str]) -> None:
    """Tell the holders. A holder that cannot be told learns of it from its next renewal."""
    told = [
        pack((b"PUBLISH", backend.holder_channel(token).encode(), token.encode()))
        for token in tokens
    ]
    with suppress(LockBackendError):
        await backend.ask(driver, methodcaller("read", told, keys))


async def _cancel(backend: Backend, driver: Driver, *, waiter: WaiterInfo) -> bool:
    keys = backend.keys(waiter.lock)
    end = partial(store.cancel, keys=keys, token=new_token(), waiter=waiter.token)
    cancelled = await backend.ask(driver, end)
    if cancelled:
        collector.note_ended(backend.description, waiter.lock, "cancelled")
    return cancelled


async def _drain(backend: Backend, driver: Driver, *, host: str, dry_run: bool) -> Parties:
    of_host = await read_parties_of_host(backend, driver, host)
    if dry_run:
        return of_host
    holders, cancelled = list(of_host.holders), []
    # Waits first: a released lock must not be handed to a waiter of the same host.
    for waiter in of_host.waiters:
        if await _cancel(backend, driver, waiter=waiter):
            cancelled.append(waiter)
        elif info := await read_lock(backend, driver, name=waiter.lock):
            # It was granted the lock meanwhile, and holds it with the token it waited with.
            holders += [holder for holder in info.holders if holder.token == waiter.token]
    released = [
        holder
        for holder in holders
        if await _force_release(backend, driver, name=holder.lock, tokens=[holder.token])
    ]
    return Parties(tuple(released), tuple(cancelled))
