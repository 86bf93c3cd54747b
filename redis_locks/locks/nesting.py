"""A lock that the thread or task has already: a nested hold, at once, or an error at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from redis_locks.conf.settings import UNSET
from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Driver, Link
from redis_locks.exceptions import LockError
from redis_locks.locks.conversions import give_back
from redis_locks.locks.hold import Hold
from redis_locks.locks.self_waits import around, refuse_waiting_for_itself, taken_by
from redis_locks.locks.with_blocks import Block
from redis_locks.protocol.callers import Session
from redis_locks.protocol.lease import Lease, Where
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Refused, read_replies
from redis_locks.values.modes import Taken

H = TypeVar("H", bound=Hold)


def nested_hold(
    kind: type[H], backend: Backend, lease: Lease, where: Where, block: Block | None = None
) -> H | None:
    """Return one more hold of a lease, found in `where`, for `block`.

    Return None if another thread has released the lease by now.
    """
    hold = kind(backend, lease)
    if block is not None:
        block.append(hold)
    if lease.join(hold, where):
        return hold
    hold.released = True
    return None


async def reenter(
    wanted: Taken,
    session: Session,
    driver: Driver,
    wait: float | None,
    reads: Sequence[bytes],
    *,
    reentrant: bool,
    may_join: Callable[[Lease], bool],
    where: Where,
    block: Block | None = None,
) -> Hold | Refused | None:
    """Return a hold, that of `block`, nested in what is around the caller.

    Around the caller is what `session` has in blocks that the caller runs in, and what those have
    who wait for its call. Return None if nothing there is in the way of the hold.

    No round trip, but for an upgrade (waits up to `wait` seconds; `Refused` after that), and for
    `reads`. A hold that it may not join, as that guards nothing, is not in its way.

    Raises:
        LockError: The wait would be for itself, and never end; or it is not `reentrant`.
        DeadlockDetected: Another shared holder upgrades as well.
        LockLost: What it has was lost meanwhile.
        LockBackendError: Redis could not be asked to upgrade or read.
    """
    found = around(session, wanted.backend, wanted.names, may_join)
    if not found or wanted.mode.startswith("permit"):
        refuse_waiting_for_itself(found, wanted)
        return None
    covering = [lease for lease in found if taken_by(lease, wanted.backend).covers(wanted)]
    if not reentrant or not (covering or _upgrades(found, wanted)):
        refuse_waiting_for_itself(found, wanted, reentrant=reentrant)
        return None
    outer = next(iter(covering or found))
    hold = nested_hold(Hold, wanted.backend, outer, where, block)
    if hold is None:
        return None
    try:
        if not covering and (refused := await hold.upgrade_on(driver, wait)) is not None:
            await hold.end(driver)
            return refused
        if reads:
            hold.read = await _read(driver, outer, reads)
    except BaseException as error:
        await give_back(hold, driver, UNSET if isinstance(error, LockError) else error)
        raise
    return hold


def _upgrades(found: Iterable[Lease], wanted: Taken) -> bool:
    """Whether there is one lease only, which has what is wanted after an upgrade."""
    has, *others = (taken_by(lease, wanted.backend) for lease in found)
    return (
        not others
        and has.mode == "shared"
        and not has.intents
        and wanted.mode == "exclusive"
        and has.names >= wanted.names
    )


async def _read(driver: Driver, lease: Lease, reads: Sequence[bytes]) -> list[Any]:
    async def read(link: Link) -> list[Any]:
        return await (await link.bulk()).read(reads, lease.keys)

    replies, _ = await persist(driver, read, lease.deadline, lock=lease.name)
    return read_replies(replies)
