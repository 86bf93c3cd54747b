"""The commit guard: whether leases outlive the COMMIT that is about to be sent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from time import monotonic
from typing import Final

from redis_locks import scripts
from redis_locks.connections.backends import Backend
from redis_locks.drivers.base import Link, run_blocking
from redis_locks.drivers.server_link import pack_call
from redis_locks.exceptions import LockBackendError, LockLost
from redis_locks.locks.releases import may_proceed
from redis_locks.protocol import replication, store
from redis_locks.protocol.lease import NOT_KNOWN, Lease
from redis_locks.protocol.retry import ask_once, persist
from redis_locks.scripts import Script

logger = logging.getLogger("redis_locks")

MARGIN: Final = 1.0
"""Seconds of its lease that a hold must have left for COMMIT; a tenth of a lease below 10 s."""


def verify(leases: Sequence[Lease]) -> None:
    """Return if all are held now and for a while longer.

    Renew each that is renewed in the background.

    Blocks for one round trip for each server, or as long as a reply may take. A lease that is not
    renewed is not extended.

    Raises:
        LockLost: A lease is lost, or ends within the margin.
        LockBackendError: Redis could not be asked, and a lock does not proceed without it.
    """
    by_backend: dict[Backend, list[Lease]] = {}
    for lease in leases:
        # What was lost as nobody could be asked: whether somebody else has it now, the server may
        # know by now.
        if lease.is_over() and not lease.is_lost_in_outage:
            raise _lost(lease)
        if not lease.is_unguarded:
            by_backend.setdefault(lease.plan.terms.backend(), []).append(lease)
    for backend, of_backend in by_backend.items():
        try:
            run_blocking(_verify(backend, of_backend))
        except LockBackendError as error:
            if not may_proceed(error) or not all(each.plan.terms.proceeds for each in of_backend):
                raise
            _go_on(of_backend, error)


def _go_on(leases: Sequence[Lease], error: LockBackendError) -> None:
    """Let COMMIT go on although the leases are not verified, and say so."""
    for lease in leases:
        lease.go_unverified()
    names = ", ".join(lease.name for lease in leases)
    logger.warning(
        "COMMIT goes on although nobody knows whether %r is held still "
        "(on_unavailable='proceed'): %s",
        *(names, error),
    )


async def _verify(backend: Backend, leases: list[Lease]) -> None:
    first, *others = leases
    ends = monotonic() + backend.driver.reply_timeout
    if not (others or first.plan.terms.replicas):
        # Most often a transaction keeps one lock, and one question verifies it.
        sent, token = monotonic(), first.token
        reply = await ask_once(backend.driver, pack_call(*first.extension), token)
        if reply is not None:
            _judge(first, store.extend_reply(reply, token), sent)
            return
    await _verify_all(backend, leases, ends)


async def _verify_all(backend: Backend, leases: list[Lease], ends: float) -> None:
    by_script: dict[Script, list[Lease]] = {}
    replicated = any(lease.plan.terms.replicas for lease in leases)
    for lease in leases:
        # Both take the same arguments; one script is one round trip.
        script = lease.plan.terms.script
        plain = script is scripts.EXTEND and replicated
        by_script.setdefault(scripts.CONFIRM if plain else script, []).append(lease)
    sent = monotonic()
    for script, alike in by_script.items():

        async def ask(
            link: Link, script: Script = script, alike: list[Lease] = alike
        ) -> list[int | None]:
            replies = await link.call_many(script, [lease.extension[1] for lease in alike])
            replies = await replication.acknowledged(backend.driver, link, alike, replies)
            failure = next((reply for reply in replies if isinstance(reply, Exception)), None)
            if failure is not None:
                raise failure
            pairs = zip(alike, replies, strict=True)
            return [store.extend_reply(reply, lease.token) for lease, reply in pairs]

        first = alike[0]
        within = ends - monotonic()
        lefts, _ = await persist(
            backend.driver, ask, first.deadline, lock=first.plan.name, within=within
        )
        for lease, left in zip(alike, lefts, strict=True):
            _judge(lease, left, sent)


def _judge(lease: Lease, left: int | None, sent: float) -> None:
    if not lease.is_open or (left is None and lease.may_be_upgrading(sent)):
        return  # a task or thread beside this one has just released it, or has it by another token
    if left is None:
        lease.lose(NOT_KNOWN)
    elif not lease.is_over():
        lease.extend(sent + left / 1000)
    if left is None or lease.is_over():
        raise _lost(lease)
    remaining = sent + left / 1000 - monotonic()
    if remaining < min(MARGIN, lease.plan.terms.lease / 10):
        msg = (
            f"The lease of lock {lease.name!r} ends in {remaining:.3f} s, too soon for COMMIT: "
            "the transaction is rolled back. Renew it, or use a longer lease"
        )
        raise LockLost(msg)


def _lost(lease: Lease) -> LockLost:
    return LockLost(
        f"Lock {lease.name!r} was lost before COMMIT ({lease.reason}): the transaction is "
        "rolled back"
    )
