"""Turn what redis-py raises, and what the server refuses, into what the core understands."""

from __future__ import annotations

import re

from redis import exceptions as redis_errors

from redis_locks.drivers.base import CutShort, LinkBroken, Unreachable
from redis_locks.drivers.endpoint import Endpoint
from redis_locks.drivers.resp import ErrorReply
from redis_locks.drivers.sentinel import SentinelsSilent, UnknownService
from redis_locks.exceptions import LockBackendError, ProtocolMismatch

# How servers word a missing right: of a command, and of one within a script.
_DENIED = ("NOPERM", "ACL failure in script", "user executing the script can't")

# A server that is starting, electing a primary or busy answers so for a moment.
_PASSING = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ")

_PROBLEMS = {
    "WRONGTYPE": "a key of another type stands where {server} should keep this lock; delete it or choose "
    "another REDIS_LOCKS['PREFIX']",
    "READONLY": "{server} is a read-only replica; point CONNECTION at the primary, or at its Sentinels",
    "OOM ": "{server} is out of memory and takes no locks",
    "NOREPLICAS": "{server} has too few replicas that keep up, and so takes no locks; see its "
    "min-replicas-to-write",
}

# What answers HELLO 3: a server that is too old, or a proxy.
_NO_RESP3 = re.compile("HELLO|NOPROTO|protocol version", re.IGNORECASE)

# What redis-py says when the other side ends a connection in mid-handshake.
_CLOSED = "Connection closed by server."

# A script says so when the slot of its keys is about to move; see `_cluster.lua`.
_MOVING = "non local key"


class NotNow(LinkBroken):
    """The server refused for the moment: nothing was done, and the connection is all right."""


class Redirected(LockBackendError):
    """Another node of the cluster has the keys; nothing was done."""

    def __init__(self, text: str, description: str) -> None:
        # Both go to Exception so that the error pickles as it is.
        super().__init__(text, description)
        kind, slot, address = text.split()[:3]
        host, _, port = address.rpartition(":")
        self.for_good = kind == "MOVED"
        """Whether the slot has moved, and not only some of its keys."""
        self.slot = int(slot)
        self.host = host
        """Empty for that of the node which says so."""
        self.port = int(port)

    def __str__(self) -> str:
        text, description = self.args
        return (
            f"{description} is one node of a cluster, and another one has this lock ({text}); "
            "give CONNECTION as redis+cluster://"
        )


class Demoted(LinkBroken):
    """The server is not the primary any more: the next link must ask Sentinels where that is."""


def connection_error(error: BaseException, endpoint: Endpoint) -> LinkBroken | LockBackendError:
    """Return what to raise when connecting to the server failed."""
    description = endpoint.description
    if isinstance(error.__cause__, redis_errors.RedisError):
        error = error.__cause__  # redis-py's asyncio connection wraps what the server answered
    if isinstance(error, redis_errors.NoPermissionError):
        return _no_permission(str(error), description)
    if isinstance(error, redis_errors.AuthenticationError):
        return LockBackendError(f"{description} refused our credentials: {error}")
    if isinstance(error, UnknownService):
        return LockBackendError(f"{description}: {error}")
    if isinstance(error, redis_errors.ResponseError) and _NO_RESP3.search(str(error)):
        return LockBackendError(
            f"{description} does not speak RESP3, in which grants arrive: {error}. Use Redis 7.0 or "
            "later, or Valkey, and no proxy in between that knows RESP2 only"
        )
    failure = f"{description} cannot be reached: {error}"
    if endpoint.sentinels is None or isinstance(error, SentinelsSilent):
        return CutShort(failure) if _was_taken(error) else Unreachable(failure)
    # A primary that is gone will soon have a successor: for whoever may wait, worth to try on.
    return LinkBroken(failure)


def _was_taken(error: BaseException | None) -> bool:
    """Return whether a connection was open before it failed."""
    while error is not None:
        if isinstance(error, (ConnectionResetError, BrokenPipeError)):
            return True
        if str(error) == _CLOSED:
            return True
        error = error.__cause__ or error.__context__
    return False


def _no_permission(text: str, description: str) -> LockBackendError:
    return LockBackendError(
        f"{description} denies our user a right: {text}. Locks need the keys PREFIX{{*, the "
        "channels PREFIX:* and some commands: `manage.py locks doctor` says which are missing, "
        "and prints the ACL rule that grants them"
    )


def _protocol_mismatch(text: str) -> ProtocolMismatch:
    _, theirs, ours, left_ms, *_ = text.split()
    retry_after = int(left_ms) / 1000
    return ProtocolMismatch(
        f"A process with another version of django-redis-locks uses this lock: it speaks protocol {theirs}, and this "
        f"process speaks protocol {ours}. Stop the processes with the other version, or give "
        f"this one a REDIS_LOCKS['PREFIX'] of its own. The other version's lease ends in {retry_after:.1f} s "
        "unless it is renewed",
        theirs,
        ours,
        retry_after,
    )


def unknown_script(reply: object) -> bool:
    """Return whether the server does not know the script (any more)."""
    return isinstance(reply, ErrorReply) and reply.text.startswith("NOSCRIPT")


def reply_error(reply: ErrorReply, endpoint: Endpoint) -> LinkBroken | LockBackendError:
    """Return what to raise for an error reply."""
    text, description = reply.text, endpoint.description
    if endpoint.sentinels is not None and ("READONLY" in text or text.startswith("MASTERDOWN")):
        return Demoted(f"{description} has another primary now ({text})")
    if text.startswith(_PASSING) or _MOVING in text:
        return NotNow(text)
    if text.startswith(("MOVED ", "ASK ")):
        return Redirected(text, description)
    return _refusal(text, description)


def _refusal(text: str, description: str) -> LockBackendError:
    """Return what to raise for a refusal that asking again does not change."""
    if text.startswith("PROTOCOL "):
        return _protocol_mismatch(text)
    if any(words in text for words in _DENIED):
        return _no_permission(text, description)
    for code, problem in _PROBLEMS.items():
        if code in text:
            return LockBackendError(f"{problem.format(server=description)} ({text})")
    return LockBackendError(f"{description} refused: {text}")
