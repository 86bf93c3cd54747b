"""End holds and waits from outside."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial

from redis_locks import store
from redis_locks.asking import ask, async_answer, blocking_answer
from redis_locks.backends import Backend
from redis_locks.drivers.base import Driver
from redis_locks.drivers.wire import pack_command
from redis_locks.exceptions import LockBackendError
from redis_locks.inspection.reading import read_lock
from redis_locks.inspection.sessions import Parties, read_parties
from redis_locks.keys import Keys, validate_name
from redis_locks.statistics.recording import note_ended


def release(name: str, *, using: str | None = None, tokens: Collection[str] | None = None) -> int:
    """Force-release a lock, hand it on, and return how many holds were ended; blocks.

    A holder learns of it at once, if it has held for more than 0.05 s; one that cannot be reached, from its
    next renewal. Async code is cancelled in its ``async with`` block; other code asks `Hold.is_lost`.
    Whoever holds the lock next, even a moment later, is never touched, except within these 0.05 s the thread
    or task of the same process to which the hold has passed (see LOCAL_BATCH).

    Args:
        name: The lock.
        using: The server, as for `locks`.
        tokens: The holds to end; None for those of this moment.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `name` is not a string.
        ValueError: `name` cannot name a lock.
    """
    return blocking_answer(using, partial(_release, name=name, tokens=tokens))


async def arelease(
    name: str, *, using: str | None = None, tokens: Collection[str] | None = None
) -> int:
    """Force-release a lock; see `release`."""
    return await async_answer(using, partial(_release, name=name, tokens=tokens))


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
    return blocking_answer(using, partial(_cancel, name=name, token=token))


async def acancel(name: str, token: str, *, using: str | None = None) -> bool:
    """Cancel a wait; see `cancel`."""
    return await async_answer(using, partial(_cancel, name=name, token=token))


def drain(host: str, *, using: str | None = None) -> Parties:
    """Cancel all waits of a host, force-release all its holds, and return what was ended.

    For a host that is gone, or that is taken out of service: what runs there may take locks
    again at once, so stop it first. Each holder and waiter learns of it as by `release` and
    `cancel`. Blocks for a round trip per hundred locks and one per hold and wait; if that fails
    halfway, or is cancelled, some are ended: drain again.

    Args:
        host: The host's name, as holders and waiters show it.
        using: The server, as for `locks`.

    Raises:
        LockBackendError: Redis could not be asked.
        TypeError: `host` is not a string.
        ValueError: `host` is empty.
    """
    return blocking_answer(using, partial(_drain, host=_validated(host)))


async def adrain(host: str, *, using: str | None = None) -> Parties:
    """End all holds and waits of a host; see `drain`."""
    return await async_answer(using, partial(_drain, host=_validated(host)))


async def _release(
    backend: Backend, driver: Driver, *, name: str, tokens: Collection[str] | None
) -> int:
    if tokens is None:
        info = await read_lock(backend, driver, name=name)
        tokens = [holder.token for holder in info.holders] if info else []
    keys = backend.keys(validate_name(name))
    ended = 0
    for token in tokens:
        if await ask(backend, driver, partial(store.release, keys=keys, token=token)):
            ended += 1
            await _tell(backend, driver, keys, token)
            note_ended(backend.description, name, "force_released", task=driver.suspends)
    return ended


async def _tell(backend: Backend, driver: Driver, keys: Keys, token: str) -> None:
    """Tell the holder. If that fails, or nobody listens, it learns of it from its next renewal."""
    told = pack_command(b"PUBLISH", backend.holder_channel(token).encode(), token.encode())
    with suppress(LockBackendError):
        await ask(backend, driver, lambda link: link.read([told], keys))


async def _cancel(backend: Backend, driver: Driver, *, name: str, token: str) -> bool:
    keys = backend.keys(validate_name(name))
    cancelled = await ask(backend, driver, partial(store.cancel, keys=keys, token=token))
    if cancelled:
        note_ended(backend.description, name, "cancelled", task=driver.suspends)
    return cancelled


async def _drain(backend: Backend, driver: Driver, *, host: str) -> Parties:
    found = (await read_parties(backend, driver)).of_host(host)
    holders, cancelled = list(found.holders), []
    # Waits first: what is released must not be handed to the same host.
    for waiter in found.waiters:
        if await _cancel(backend, driver, name=waiter.lock, token=waiter.token):
            cancelled.append(waiter)
        elif info := await read_lock(backend, driver, name=waiter.lock):
            # Granted meanwhile, it holds with the token it waited with.
            holders += [holder for holder in info.holders if holder.token == waiter.token]
    released = [
        holder
        for holder in holders
        if await _release(backend, driver, name=holder.lock, tokens=[holder.token])
    ]
    return Parties(tuple(released), tuple(cancelled))


def _validated(host: object) -> str:
    if not isinstance(host, str):
        msg = f"host must be a string, not {host!r} ({type(host).__name__})"
        raise TypeError(msg)
    if not host:
        msg = "host must not be empty; `parties().hosts` are those that hold or wait"
        raise ValueError(msg)
    return host
