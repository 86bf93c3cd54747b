"""One function per Lua script: typed arguments in, a small frozen reply out."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis_locks import scripts
from redis_locks.drivers.base import Call, Link, LinkBroken
from redis_locks.keys import LockKeys


class Request(NamedTuple):
    """What one token asks for. `wait_ms`: 0 do not join the queue, -1 wait for ever."""

    name: str
    keys: LockKeys
    token: str
    lease_ms: int
    mode: str
    who: str


class Granted(NamedTuple):
    """The lock is ours since `at_ms`, server time."""

    fencing_token: int
    at_ms: int


class Refused(NamedTuple):
    """The lock is somebody else's until `ends_ms`, unless renewed; `claim` is theirs, or empty."""

    at_ms: int
    ends_ms: int
    claim: str


def _echoed(reply: list[Any], token: str) -> list[Any]:
    # A connection that is one reply out of step would give us somebody else's grant.
    if not isinstance(reply, list) or not reply or reply[0] != token.encode():
        msg = f"the reply {reply!r} is not for token {token}"
        raise LinkBroken(msg)
    return reply


async def acquire(link: Link, request: Request, wait_ms: int) -> Granted | Refused:
    """Take the lock if it is free; else join the queue, or not if `wait_ms` is 0."""
    reply = _echoed(
        await link.call(
            scripts.ACQUIRE,
            (
                request.keys,
                (
                    request.token,
                    request.name,
                    request.lease_ms,
                    request.mode,
                    request.who,
                    link.channel,
                    wait_ms,
                ),
            ),
        ),
        request.token,
    )
    if reply[1] == 1:
        return Granted(int(reply[2]), int(reply[3]))
    return Refused(int(reply[2]), int(reply[3]), reply[4].decode(errors="replace"))


async def release(link: Link, keys: LockKeys, name: str, token: str) -> bool:
    """End the hold and hand the lock on; False if the token did not hold it."""
    reply = await link.call(scripts.RELEASE, (keys, (token, name)))
    return bool(_echoed(reply, token)[1])


async def abandon(link: Link, keys: LockKeys, name: str, token: str) -> Refused:
    """Leave the queue, and hand on what was granted meanwhile; return who holds the lock now."""
    reply = _echoed(await link.call(scripts.ABANDON, (keys, (token, name))), token)
    return Refused(int(reply[1]), int(reply[2]), reply[3].decode(errors="replace"))


def extend_call(keys: LockKeys, name: str, token: str, lease_ms: int) -> Call:
    """Return the call that makes a lease last `lease_ms` from now at least."""
    return keys, (token, name, lease_ms)


def extend_reply(reply: list[Any], token: str) -> int | None:
    """Return how many ms were left of the lease when the call ran, or None if it was lost."""
    reply = _echoed(reply, token)
    return int(reply[3]) - int(reply[2]) if reply[1] else None


async def extend(link: Link, keys: LockKeys, name: str, token: str, lease_ms: int) -> int | None:
    """Make the lease last `lease_ms` from now at least; see `extend_reply`."""
    return extend_reply(await link.call(scripts.EXTEND, extend_call(keys, name, token, lease_ms)), token)


def grant_message(message: bytes) -> Granted:
    """Return the grant that a release sent to a waiter."""
    _, fence, at_ms = message.split(b" ")
    return Granted(int(fence), int(at_ms))
