"""Leases in another mode: a shared one becomes exclusive, or an exclusive one shared.

While an upgrade is under way, Redis may know the hold by either of two tokens; see
`releases.by_any_token`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.drivers.base import Driver, Link
from redis_locks.exceptions import LockBackendError, LockError, LockLost
from redis_locks.locks.hold_errors import (
    lost,
    refuse_upgrading,
    released,
    require_no_rows,
)
from redis_locks.locks.releases import Endable, end
from redis_locks.locks.self_waits import around, refuse_waiting_for_itself
from redis_locks.protocol import acquire, replication, store
from redis_locks.protocol.callers import session
from redis_locks.protocol.lease import NOT_KNOWN, Lease
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Refused, Request, Won
from redis_locks.values.modes import Taken


async def upgrade(
    driver: Driver, lease: Lease, token: str, seconds: float | None
) -> Refused | None:
    """Make a shared lease exclusive, as `token`, within `seconds`.

    Return why it could not be, or None. Raises as `Hold.upgrade`.
    """
    backend, names = lease.server(), frozenset(lease.names)
    refuse_waiting_for_itself(
        around(session(), backend, names, lambda other: not (other is lease or other.is_unguarded)),
        Taken(backend, names, "exclusive"),
        advice="take them together, or upgrade when that hold has ended",
    )
    try:
        return await _upgrade(driver, lease, token, seconds)
    except LockLost:
        if not lease.is_open:
            raise released(lease.name) from None
        lease.lose(NOT_KNOWN)
        raise lost(lease) from None
    finally:
        try:
            lease.end_upgrade(token)
        except BaseException:
            lease.end_upgrade(token)  # interrupted before it began
            raise
        if not lease.is_open:
            await _end_again(driver, lease)


async def _upgrade(
    driver: Driver, lease: Lease, token: str, seconds: float | None
) -> Refused | None:
    if not lease.begin_upgrade(token):
        refuse_upgrading(lease)
    if lease.mode == "exclusive":
        return None  # by another thread or task, just now
    if not lease.is_settled:
        await share(driver, lease)
    mode = f"upgrade:{lease.token}"
    request = replace(lease.request, token=token, mode=mode, reads=(), broken_off=0)
    patience = get_settings().deadlock_timeout
    outcome: Won | Refused | None = None
    try:
        outcome = await acquire.acquire(driver, request, seconds, patience)
        if isinstance(outcome, Refused):
            return outcome
        await _become_exclusive(driver, lease, request, outcome)
    except BaseException as error:
        is_answer = isinstance(error, LockError) and not isinstance(error, LockBackendError)
        if not is_answer and lease.token != token and driver.background is not None:
            until = monotonic() + lease.lease_ms / 1000
            driver.background.add(partial(_take_back, lease, request), until)
        if isinstance(outcome, Won) and lease.token != token:
            await acquire.give_up(driver, request)
        raise
    return None


async def _take_back(lease: Lease, request: Request, link: Link) -> None:
    """Take back an upgrade that nobody may have heard of.

    Take back the hold, too, if it was released as what it was before.
    """
    await store.give_up(link, request)
    if not lease.is_open:
        lease.end_by_upgrade()  # the release, which may come after this, has not lost it
        await end(link, lease, stays_closed=True)


async def _become_exclusive(driver: Driver, lease: Lease, request: Request, won: Won) -> None:
    """Have what an upgrade won.

    Interrupted, or if too few replicas know of it, the lease is shared again. The caller takes
    back what was won.
    """
    shared = None
    try:
        shared = lease.request, lease.deadline, lease.fencing_token, lease.mode
        deadline = max(won.deadline, lease.deadline)  # the script never shortens it
        if request.replicas:
            new = Lease(lease.plan, lease.session, lease.renewer, request.token)
            new.win(deadline, won.fencing_token)
            await replication.confirm(driver, new, won.read)
            deadline = new.deadline
        lease.convert(request, deadline, won.fencing_token, "exclusive")
    except BaseException:
        if shared is not None:
            lease.convert(*shared)
        raise
    if not lease.is_open:
        raise released(lease.name)


async def _end_again(driver: Driver, lease: Lease) -> None:
    """Release what another thread or task released during its upgrade.

    That release may have asked by the other token.
    """
    lease.end_by_upgrade()
    with suppress(LockError):
        await driver.finish(
            persist(
                driver,
                lambda link: end(link, lease, stays_closed=True),
                lease.deadline,
                lock=lease.name,
            )
        )


async def share(driver: Driver, lease: Lease) -> None:
    """Make a lease shared. Raises as `Hold.downgrade`."""
    try:
        await _share(driver, lease)
    except LockError:
        raise
    except BaseException:
        # It may have happened: do not go on as if it were exclusive.
        with suppress(LockError):
            await driver.finish(_share(driver, lease))
        raise


async def undo_upgrade(driver: Driver, hold: Endable) -> None:
    """Share again what an upgrade by this hold made exclusive, for all nested holds."""
    for part in reversed(hold.parts):
        lease = part.lease
        if lease.token == part.upgrade_token and lease.mode == "exclusive" and lease.is_held:
            with suppress(LockError):
                await share(driver, lease)


async def give_back(hold: Endable, driver: Driver, error: BaseException | Unset = UNSET) -> None:
    """End a hold that its caller does not get, and undo its upgrade; see `Hold.end`."""
    try:
        await undo_upgrade(driver, hold)
    finally:
        await hold.end(driver, error)


async def _share(driver: Driver, lease: Lease) -> None:
    # From here on others may share it. If nobody hears of that, no nested block must take it for
    # exclusive.
    lease.change_mode("shared", settled=False)
    held, _ = await persist(
        driver,
        lambda link: store.downgrade(link, lease.keys, lease.token),
        lease.deadline,
        lock=lease.name,
    )
    if not held:
        lease.lose(NOT_KNOWN)
        raise lost(lease)
    lease.change_mode("shared", settled=True)


def stays(lease: Lease, mode: str) -> bool:
    """Return whether there is nothing to change; raise TypeError if it cannot be changed."""
    require_no_rows(lease)
    if lease.mode not in {"exclusive", "shared"}:
        msg = "a permit of a semaphore is neither shared nor exclusive; acquire a Lock instead"
        raise TypeError(msg)
    return (lease.mode == mode and lease.is_settled) or lease.is_unguarded
