"""One round of renewal: extend the leases that are due, and note how it went."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

from redis_locks.drivers.base import Call, Driver, LinkBroken
from redis_locks.exceptions import LockBackendError
from redis_locks.protocol import replication, store
from redis_locks.protocol.leases import Lease
from redis_locks.scripts import Script

logger = logging.getLogger("redis_locks")


async def renew(driver: Driver, leases: list[Lease]) -> None:
    """Renew leases, a round trip per script; note in each how it went. Raises nothing about Redis."""
    by_script: dict[Script, list[tuple[Lease, Call]]] = {}
    for lease in leases:
        script, call = lease.extension
        by_script.setdefault(script, []).append((lease, call))
    for script, alike in by_script.items():
        await _renew_alike(driver, script, alike)


async def _renew_alike(driver: Driver, script: Script, alike: list[tuple[Lease, Call]]) -> None:
    sent = monotonic()
    leases = [lease for lease, _ in alike]
    calls = [call for _, call in alike]
    try:
        replies = await _call_many(driver, script, calls, leases)
    except LinkBroken:
        driver.drop_idle()
        sent = monotonic()
        try:
            # The link may have died long ago, while nobody used it.
            replies = await _call_many(driver, script, calls, leases)
        except (LinkBroken, LockBackendError) as error:
            driver.drop_idle()
            replies = [error] * len(leases)
    except LockBackendError as error:
        replies = [error] * len(leases)
    for (lease, (_, argv)), reply in zip(alike, replies, strict=True):
        note(lease, reply, sent, str(argv[0]))


async def _call_many(
    driver: Driver, script: Script, calls: list[Call], leases: list[Lease]
) -> list[Any]:
    link = await driver.checkout()
    try:
        replies = await link.call_many(script, calls)
        return await replication.acknowledged(driver, link, leases, replies)
    finally:
        driver.checkin(link)


def note(lease: Lease, reply: object, sent: float, token: str | None = None) -> None:
    """Note how a renewal went that was sent with `token` (None: that of the lease)."""
    if lease.ended:
        return  # the release overtook us
    try:
        if isinstance(reply, Exception):
            raise reply
        left = store.extend_reply(reply, token or lease.token)
    except (LinkBroken, LockBackendError) as error:
        logger.info("Renewal of lock %r failed, trying again: %s", lease.name, error)
        lease.due = monotonic() + lease.lease_ms / 10_000
        return
    if left is None:
        if lease.upgrading >= sent:
            lease.due = monotonic() + lease.lease_ms / 10_000
            return
        lease.lost = True
    elif not lease.is_over():
        lease.restated()
        lease.renewed_until(sent + left / 1000)
