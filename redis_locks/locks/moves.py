"""Leases that move: out of this process as text, and in by that text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Protocol, TypeVar

from redis_locks.conf.settings import UNSET, Unset, get_settings
from redis_locks.connections.backends import Backend, backend_for
from redis_locks.drivers.base import Driver, Link
from redis_locks.exceptions import LockBackendError, LockError, LockLost
from redis_locks.locks.hold_errors import lost
from redis_locks.locks.transfer import Detached
from redis_locks.protocol import acquire, replication, store
from redis_locks.protocol.callers import new_session, new_token, session
from redis_locks.protocol.lease import NOT_KNOWN, Lease, Renewer, Where, tell_moved
from redis_locks.protocol.plans import Plan, Terms
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Adopted, Request
from redis_locks.values.arguments import flag, optional_text

_BETWEEN_MOVES = 0.01
"""Seconds to pause before a move that a fail-over forgot is repeated."""


async def detach(driver: Driver, lease: Lease, hold: object, milliseconds: int) -> str:
    """Give the lease of `hold` away, which lasts so long; return the text for `adopt`.

    Raises as `Hold.detach`. If that is not known to have happened, `hold` has it still.
    """
    # A session of its own: deadlock detection must not take this thread for the holder.
    token = new_token(new_session())
    transit = replace(lease.request, token=token, lease_ms=milliseconds, broken_off=0)
    held_ms = round((monotonic() - lease.since) * 1000)
    travels = Detached(
        lease.names,
        token,
        lease.mode,
        lease.lease_ms,
        milliseconds,
        lease.request.template,
        lease.replicas,
        0,
        held_ms,
    )
    travels.text()  # what is wrong with the key is to show before anything has happened
    where = lease.where(hold)
    ends = monotonic() + driver.reply_timeout
    lease.leave(hold)
    try:
        moved, _ = await _move_for_good(driver, lease, lease.token, transit, lease.deadline, ends)
        if moved is None:
            lease.lose(NOT_KNOWN)
            raise lost(lease)
        # Though the reply may have come after the lease: the server says that it held.
        text = travels._replace(at_ms=moved.at_ms).text()
        await tell_moved(driver, "detached", lease)
    except BaseException:
        await driver.finish(_move_back(driver, lease, hold, transit, where, ends))
        raise
    return text


async def _move_for_good(
    driver: Driver, lease: Lease, token: str, heir: Request, until: float, ends: float
) -> tuple[Adopted | None, float]:
    """As `_move`, once enough replicas know of it; with it the hold's deadline.

    A fail-over may forget the move, though not the hold. The new primary knows the hold by the
    token that it had before, so the move is repeated there.

    Raises LockLost if the lease ended before that was known. Then `heir` may still hold the lock on
    the server.
    """
    while True:
        sent = monotonic()
        moved = await _move(driver, lease, token, heir, until, ends)
        deadline = sent + (moved.left_ms / 1000 if moved else 0)
        if moved is None or not heir.replicas:
            return moved, deadline
        known = Lease(lease.plan, lease.session, lease.renewer, heir.token)
        known.win(deadline, moved.fencing_token)
        if await replication.extend(driver, known, heir.lease_ms):
            return moved, known.deadline
        if monotonic() >= until:
            raise lost(lease)
        await driver.sleep(_BETWEEN_MOVES)


async def _move(
    driver: Driver, lease: Lease, token: str, heir: Request, until: float, ends: float
) -> Adopted | None:
    """Give the hold of `token` to `heir`, however often connections break before `until`.

    Return None if there is no such hold. The caller waits until `ends`.
    """
    moved, _ = await persist(
        driver,
        lambda link: store.adopt(link, heir, token),
        until,
        lock=lease.name,
        within=ends - monotonic(),
    )
    return moved


async def _move_back(
    driver: Driver, lease: Lease, hold: object, transit: Request, where: Where, ends: float
) -> None:
    """Have the lease again, after a detachment that may or may not have happened.

    If need be, the background does so.
    """

    async def move_back(link: Link) -> None:
        await store.adopt(link, lease.request, transit.token)
        if transit.broken_off:
            await store.give_up(link, transit)  # or a late question might detach it

    async def move_back_later(link: Link) -> None:
        await move_back(link)
        if not lease.is_open:  # released meanwhile
            await store.release(link, lease.keys, lease.token)

    try:
        within = ends - monotonic()
        await persist(driver, move_back, lease.deadline, lock=lease.name, within=within)
    except LockBackendError:
        if driver.background is not None:
            driver.background.add(move_back_later, lease.deadline)
    lease.resume(hold, where)


async def adopt(driver: Driver, lease: Lease, hold: object, detached: Detached) -> bool:
    """Let `hold` have what was given away, as `lease`, which has asked for nothing yet.

    Return False if it is not there any more. Interrupted, `hold` may have the lock, and is to be
    released.
    """
    request = lease.request
    lease.tells_its_end(tells=False)  # until there is something to tell the end of
    until = monotonic() + lease.lease_ms / 1000
    ends = monotonic() + driver.reply_timeout
    adopted, deadline = await _move_for_good(driver, lease, detached.token, request, until, ends)
    if adopted is None:
        lease.leave(hold)
        return False
    # One hold goes on: its time before, and on the way, counts.
    earlier = (detached.held_ms + adopted.at_ms - detached.at_ms) / 1000
    lease.adopt(adopted.fencing_token, deadline, earlier=earlier)
    lease.begin(hold)
    lease.tells_its_end(tells=True)
    await tell_moved(driver, "adopted", lease)
    return True


def asked_for(
    text: str,
    using: str | None,
    renew: bool | Unset,  # noqa: FBT001 - as given
    label: str | None,
) -> tuple[Detached, Backend]:
    """Return the hold to adopt, and its server; raises as `Hold.adopt` says."""
    optional_text(label, "label")
    if renew is not UNSET:
        flag(renew, "renew")
    backend = backend_for(using)
    return Detached.read(text), backend


class AdoptedHold(Protocol):
    """A hold, as far as adopting it goes."""

    @property
    def name(self) -> str:
        """The name of its lock."""

    async def release_on(self, driver: Driver) -> None:
        """Release it."""


H = TypeVar("H", bound=AdoptedHold)


async def adopted(
    kind: Callable[[Backend, Lease], H],
    detached: Detached,
    backend: Backend,
    driver: Driver,
    renewer: Renewer,
    renew: bool | Unset,  # noqa: FBT001 - as given
    label: str | None,
) -> H:
    """See `Hold.adopt`."""
    terms = Terms(
        detached.mode,
        detached.lease_ms,
        backend=backend,
        renews=get_settings().renew if renew is UNSET else renew,
        replicas=detached.replicas,
        label=label,
        template=detached.template,
    )
    plan = Plan(terms, detached.names, backend.keys(*detached.names))
    lease = Lease(plan, session(), backend.patient(driver) if terms.replicas else renewer)
    hold = kind(backend, lease)
    try:
        if await adopt(driver, lease, hold, detached):
            return hold
    except LockBackendError:
        if driver.background is not None:  # it has cost its time
            driver.background.add(partial(_let_go, lease), monotonic() + lease.lease_ms / 1000)
        raise
    except BaseException:
        with suppress(LockError):  # it may or may not have been adopted
            await driver.finish(hold.release_on(driver))
        if lease.request.broken_off:
            await acquire.give_up(driver, lease.request)  # or a late question might adopt it
        raise
    msg = f"Lock {hold.name!r} cannot be adopted: it was adopted already, or its lease ended"
    raise LockLost(msg)


async def _let_go(lease: Lease, link: Link) -> None:
    """Release what may or may not have been adopted; a late question does not adopt it either."""
    await store.release(link, lease.keys, lease.token)
    if lease.request.broken_off:
        await store.give_up(link, lease.request)
