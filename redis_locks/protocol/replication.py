"""Replicated holds: a write counts once WAIT says that enough replicas have it.

WAIT waits for the last write of its own connection (https://redis.io/docs/latest/commands/wait/).
Another connection may have written the grant: that of the releasing process, in a hand-off; one
that broke before the reply came; or the shared one of an event loop, which must not block. So the
holder first writes something itself, by `confirm.lua`, and then waits, in the same packet. There is
one stream of writes, so a replica that has this write has the grant as well.

A holder's deadline moves forward only with an extend that enough replicas have: an extend that only
the primary has is lost with the primary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Final

from redis_locks import scripts
from redis_locks.drivers.base import Driver, Link, LinkBroken
from redis_locks.drivers.resp import ErrorReply, pack
from redis_locks.drivers.server_link import pack_call
from redis_locks.exceptions import LockBackendError, LockError, NotReplicated
from redis_locks.protocol import store
from redis_locks.protocol.lease import NOT_KNOWN, Lease
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Request

LONGEST: Final = 1.0
"""Seconds to wait for replicas at most."""

EARLY: Final = 0.05
"""Seconds to wait for them at most in the packet of the acquire, which may join a queue instead."""


def patience(driver: Driver, lease_ms: int) -> float:
    """Return seconds to wait for replicas: far less than a lease, or than a command may take."""
    return min(LONGEST, lease_ms / 4000, driver.reply_timeout / 2)


class ReplicatedLease(Lease):
    """A lease that counts once enough replicas know of it."""

    def asked(self, driver: Driver) -> Request:
        """Return what is asked for, with a confirmation in its packet if that delays nobody."""
        # Whatever asks later, by the same token, counts the questions that were broken off.
        return self.ask_by(with_confirmation(driver, self.request))

    async def confirmed(self, driver: Driver, read: Sequence[Any]) -> Sequence[Any]:
        """Return the replies to the plan's reads, once enough replicas know of the grant.

        See `confirm`.
        """
        return await confirm(driver, self, read)


def with_confirmation(driver: Driver, request: Request) -> Request:
    """Return the request with a confirmation in the same packet.

    The request is as it was if that would delay others on the link.
    """
    if not request.replicas or driver.unshared() is not driver:
        return request
    call = store.extend_call(request.keys, request.token, request.lease_ms)
    seconds = min(EARLY, patience(driver, request.lease_ms))
    confirmation = (pack_call(scripts.CONFIRM, call), _wait(request.replicas, seconds))
    return replace(request, reads=(*request.reads, *confirmation))


async def confirm(driver: Driver, lease: Lease, read: Sequence[Any]) -> Sequence[Any]:
    """Return what was `read` with a grant, once enough replicas know of it.

    Blocks for a round trip and `patience` more, unless the packet of the acquire has confirmed it.

    Raises:
        NotReplicated: Too few replicas acknowledged it in time.
        LockBackendError: Redis could not be asked.
        LockError: The hold has ended meanwhile.
    """
    asked = len(lease.plan.reads)
    if not _confirmed(lease, read[asked:]) and not await extend(driver, lease, lease.lease_ms):
        msg = f"Lock {lease.name!r} was lost before its replicas knew of it; use a longer lease"
        raise LockError(msg)
    return read[:asked]


def _confirmed(lease: Lease, replies: Sequence[Any]) -> bool:
    if not replies or any(isinstance(reply, ErrorReply) for reply in replies):
        return False  # the server may not know the script yet
    reply, acknowledged = replies
    held = store.extend_reply(reply, lease.token) is not None
    return held and acknowledged >= lease.replicas


async def extend(driver: Driver, lease: Lease, milliseconds: int) -> bool:
    """Make a lease last so long from now at least, and move its deadline once enough replicas know.

    Returns False if the hold is lost. Interrupted, or with an error, it leaves the deadline as it
    was.

    Raises:
        NotReplicated: Too few replicas acknowledged it in time.
        LockBackendError: Redis could not be asked.
    """
    driver = driver.unshared()
    seconds = patience(driver, lease.lease_ms)
    call = store.extend_call(lease.keys, lease.token, milliseconds)
    wait = _wait(lease.replicas, seconds)

    async def ask(link: Link) -> tuple[float, Any, Any]:
        sent = monotonic()
        reply, count = await link.call(lease.script, call, (wait,))
        _require_primary(count)
        return sent, reply, count

    until = min(lease.deadline, monotonic() + LONGEST)
    (sent, reply, count), _ = await persist(driver, ask, until, lock=lease.name)
    left = store.extend_reply(reply, lease.token)
    if left is None:
        lease.lose(NOT_KNOWN)
        return False
    _require(driver, lease, count, seconds)
    if lease.is_over():
        return False  # longer on the servers, but the answer came too late
    lease.extend(sent + left / 1000)
    return True


async def acknowledged(
    driver: Driver, link: Link, leases: Sequence[Lease], replies: list[Any]
) -> list[Any]:
    """Return the replies to extends that `link` has sent.

    Each that too few replicas have becomes an error.
    """
    most = max(lease.plan.terms.replicas for lease in leases)
    if not most:
        return replies
    seconds = min(patience(driver, lease.lease_ms) for lease in leases)
    # A link that broke meanwhile says so: it is not replaced by one that has written nothing.
    (count,) = await link.read((_wait(most, seconds),), leases[0].keys)
    _require_primary(count)
    return [
        _acknowledged(driver, lease, reply, count, seconds)
        for lease, reply in zip(leases, replies, strict=True)
    ]


def _acknowledged(driver: Driver, lease: Lease, reply: Any, count: object, seconds: float) -> Any:
    if isinstance(reply, Exception) or store.extend_reply(reply, lease.token) is None:
        return reply
    try:
        _require(driver, lease, count, seconds)
    except LockBackendError as error:
        return error
    return reply


def require(lease: Lease, replicas: int) -> None:
    """Raise LockError if a nested hold asks for more replicas than the guarded outer one has."""
    if lease.replicas < replicas and not lease.is_unguarded:
        msg = (
            f"Lock {lease.name!r} is held already with replicas={lease.replicas}, so a nested "
            f"hold cannot have replicas={replicas}: give the outer one as many"
        )
        raise LockError(msg)


def _wait(replicas: int, seconds: float) -> bytes:
    # 0 would be for ever.
    return pack((b"WAIT", b"%d" % replicas, b"%d" % max(1, int(seconds * 1000))))


def _require_primary(count: object) -> None:
    """Raise LinkBroken if `count`, the reply to WAIT, says that the server has become a replica.

    Then another server is to be asked.
    """
    if isinstance(count, ErrorReply) and count.text.startswith(("UNBLOCKED", "ERR WAIT")):
        raise LinkBroken(count.text)


def _require(driver: Driver, lease: Lease, count: object, seconds: float) -> None:
    """Raise unless `count`, the reply to WAIT, is as high as asked for."""
    wanted = lease.replicas
    if isinstance(count, ErrorReply) or not isinstance(count, int):
        msg = (
            f"{driver.description} refused WAIT, which replicas={wanted} needs: {count}. "
            "`manage.py locks doctor` says which rights are missing"
        )
        raise LockBackendError(msg)
    if count < wanted:
        msg = (
            f"Lock {lease.name!r} asks for replicas={wanted}, but {count} acknowledged it within "
            f"{seconds:g} s, so it does not count. See `manage.py locks doctor`: are as many "
            f"connected to {driver.description}, and do they keep up?"
        )
        raise NotReplicated(msg, lease.name, count, wanted)
