"""End holds and waits from outside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from redis_locks.connections.backends import Backend, Question, async_answer, blocking_answer
from redis_locks.drivers.base import Driver
from redis_locks.drivers.wire import pack_command
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection import replies
from redis_locks.inspection.parameters import validate_host, validate_tokens, validate_waiter
from redis_locks.inspection.queries import MOST_WAITERS, read_lock
from redis_locks.inspection.sessions import Parties, read_parties
from redis_locks.inspection.snapshots import WaiterInfo
from redis_locks.protocol import store
from redis_locks.statistics.collector import collector
from redis_locks.values.arguments import flag
from redis_locks.values.identity import new_token
from redis_locks.values.keys import Keys, validate_name


@dataclass(frozen=True, slots=True)
class ForceReleased:
    """What a force-release did; true if it ended a hold.

    `ended` is the number of holds. `fencing_token` is above all that the lock gave out before, also
    to holders that were left alone, and the next holder's is higher: given to a resource, it shuts
    out what the ended ones may still write, before anybody else touches it. 0: no hold was ended.
    """

    ended: int
    fencing_token: int

    def __bool__(self) -> bool:
        return self.ended > 0


def force_release(
    name: str, *, using: str | None = None, tokens: Collection[str] | None = None
) -> ForceReleased:
    """End the holds of a lock, overtake their fencing tokens, and hand it on; blocks.

    A holder learns of it at once, if it has held for more than 0.05 s; one that cannot be reached, from its
    next renewal. Async code is cancelled in its ``async with`` block; other code asks `Hold.is_lost`.
    Whoever holds the lock next, even a moment later, is never touched, except within these 0.05 s the thread
    or task of the same process to which the hold has passed (see LOCAL_BATCH).

    Args:
        name: The lock.
        using: The server, as for `locks`.
        tokens: The holds to end, by the tokens of their `HolderInfo`; None for those of this moment.

    Raises:
        LockBackendError: Redis could not be asked; the holds may have been ended or not.
        TypeError: `name` is not a string, or `tokens` not a list of strings.
        ValueError: `name` cannot name a lock, or there is something else than tokens in `tokens`.
    """
    return blocking_answer(using, _force_release_of(name, tokens))


async def aforce_release(
    name: str, *, using: str | None = None, tokens: Collection[str] | None = None
) -> ForceReleased:
    """Force-release a lock; see `force_release`."""
    return await async_answer(using, _force_release_of(name, tokens))


def cancel(waiter: WaiterInfo, *, using: str | None = None) -> bool:
    """Cancel a wait: the waiter gets a `LockError` that says so at once. Blocks for a round trip.

    A set of locks is waited for as one. Returns False if it waits no more: it may have been
    granted the lock meanwhile, or have given up.

    Args:
        waiter: The wait, as `waiters` and `lock` return it.
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked; the wait may have been ended or not.
        TypeError: `waiter` is not a `WaiterInfo`.
        ValueError: Its `lock` cannot name a lock, or its `token` is none.
    """
    return blocking_answer(using, partial(_cancel, waiter=validate_waiter(waiter)))


async def acancel(waiter: WaiterInfo, *, using: str | None = None) -> bool:
    """Cancel a wait; see `cancel`."""
    return await async_answer(using, partial(_cancel, waiter=validate_waiter(waiter)))


def drain(host: str, *, using: str | None = None, dry_run: bool = False) -> Parties:
    """Cancel all waits of a host, force-release all its holds, and return what was ended.

    For a host that is gone, or that is taken out of service: what runs there may take locks
    again at once, so stop it first. Each holder and waiter learns of it as by `force_release` and
    `cancel`. Blocks for a round trip per hundred locks, one per wait and two per hold; if that fails
    halfway, or is cancelled, some are ended: drain again.

    Args:
        host: The host's name, as holders and waiters show it.
        using: The server, as for `locks`.
        dry_run: Whether to end nothing, and to return what there is to be ended.

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
    return partial(_force_release, name=validate_name(name), tokens=given)


async def _force_release(
    backend: Backend, driver: Driver, *, name: str, tokens: Collection[str] | None
) -> ForceReleased:
    keys = backend.keys(name)
    if tokens is None:
        (found,) = await backend.ask(
            driver, partial(replies.inspect, locks=[keys], most=MOST_WAITERS)
        )
        tokens = [token for token, _, _ in found.holders]
    if not tokens:
        return ForceReleased(0, 0)
    end = partial(store.force_release, keys=keys, token=new_token(), holds=tuple(tokens))
    ended, fencing_token = await backend.ask(driver, end)
    if ended:
        await _tell(backend, driver, keys, ended)
    for _ in ended:
        collector.note_ended(backend.description, name, "force_released", task=driver.suspends)
    return ForceReleased(len(ended), fencing_token)


async def _tell(backend: Backend, driver: Driver, keys: Keys, tokens: Sequence[str]) -> None:
    """Tell the holders. If that fails, or nobody listens, they learn of it from their next renewal."""
    told = [
        pack_command(b"PUBLISH", backend.holder_channel(token).encode(), token.encode())
        for token in tokens
    ]
    with suppress(LockBackendError):
        await backend.ask(driver, lambda link: link.read(told, keys))


async def _cancel(backend: Backend, driver: Driver, *, waiter: WaiterInfo) -> bool:
    keys = backend.keys(waiter.lock)
    end = partial(store.cancel, keys=keys, token=new_token(), waiter=waiter.token)
    cancelled = await backend.ask(driver, end)
    if cancelled:
        collector.note_ended(backend.description, waiter.lock, "cancelled", task=driver.suspends)
    return cancelled


async def _drain(backend: Backend, driver: Driver, *, host: str, dry_run: bool) -> Parties:
    found = (await read_parties(backend, driver)).of_host(host)
    if dry_run:
        return found
    holders, cancelled = list(found.holders), []
    # Waits first: what is released must not be handed to the same host.
    for waiter in found.waiters:
        if await _cancel(backend, driver, waiter=waiter):
            cancelled.append(waiter)
        elif info := await read_lock(backend, driver, name=waiter.lock):
            # Granted meanwhile, it holds with the token it waited with.
            holders += [holder for holder in info.holders if holder.token == waiter.token]
    released = [
        holder
        for holder in holders
        if await _force_release(backend, driver, name=holder.lock, tokens=[holder.token])
    ]
    return Parties(tuple(released), tuple(cancelled))
