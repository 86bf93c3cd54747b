"""The commit guard: whether holds outlive the COMMIT that is about to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Final

from redis_locks import scripts
from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Link, run_blocking
from redis_locks.exceptions import LockLost
from redis_locks.locks.hold import Hold
from redis_locks.protocol import replication, store
from redis_locks.protocol.lease import NOT_KNOWN
from redis_locks.protocol.retry import persist

MARGIN: Final = 1.0
"""Seconds of its lease that a hold must have left for COMMIT; a tenth of a lease below 10 s."""


def verify(holds: Sequence[Hold]) -> None:
    """Return if all holds are held now and for a while longer. Renew each hold that is renewed in the background.

    Blocks for one round trip for each server. A lease that is not renewed is not extended.

    Raises:
        LockLost: A hold is lost, or its lease ends within the margin.
        LockBackendError: Redis could not be asked.
    """
    by_backend: dict[Backend, list[Hold]] = {}
    for hold in holds:
        hold.check()
        by_backend.setdefault(hold.backend, []).extend(hold.parts)
    for backend, of_backend in by_backend.items():
        run_blocking(_verify(backend, of_backend))


async def _verify(backend: Backend, holds: list[Hold]) -> None:
    for hold in holds:
        await hold.restate(backend.driver)
    sent = monotonic()

    async def ask(link: Link) -> list[int | None]:
        leases = [hold.lease for hold in holds]
        calls = [
            store.extend_call(lease.keys, lease.token, lease.lease_ms if lease.renews else 0)
            for lease in leases
        ]
        replicated = any(lease.request.replicas for lease in leases)
        script = scripts.CONFIRM if replicated else scripts.EXTEND
        replies = await link.call_many(script, calls)
        replies = await replication.acknowledged(backend.driver, link, leases, replies)
        failure = next((reply for reply in replies if isinstance(reply, Exception)), None)
        if failure is not None:
            raise failure
        pairs = zip(leases, replies, strict=True)
        return [store.extend_reply(reply, lease.token) for lease, reply in pairs]

    until, lock = holds[0].lease.deadline, holds[0].lease.name
    lefts, _ = await persist(backend.driver, ask, until, lock=lock)
    for hold, left in zip(holds, lefts, strict=True):
        _judge(hold, left, sent)


def _judge(hold: Hold, left: int | None, sent: float) -> None:
    lease = hold.lease
    if left is None:
        lease.lose(NOT_KNOWN)
    elif not lease.is_over():
        lease.extend(sent + left / 1000)
    if left is None or hold.is_lost:
        msg = f"Lock {hold.name!r} was lost before COMMIT: the transaction is rolled back"
        raise LockLost(msg)
    remaining = sent + left / 1000 - monotonic()
    if remaining < min(MARGIN, lease.lease_ms / 10_000):
        msg = (
            f"The lease of lock {hold.name!r} ends in {remaining:.3f} s, too soon for COMMIT: "
            "the transaction is rolled back. Renew it, or use a longer lease"
        )
        raise LockLost(msg)
