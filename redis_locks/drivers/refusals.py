"""What the server's error replies mean for the core. Links raise what is made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis_locks.drivers.base import LinkBroken
from redis_locks.drivers.resp import ErrorReply
from redis_locks.exceptions import LockBackendError, ProtocolMismatch

if TYPE_CHECKING:
    from redis_locks.drivers.endpoint import Endpoint

# How servers word a missing right: of a command, and of one within a script.
_DENIED = ("NOPERM", "ACL failure in script", "user executing the script can't")

# A server that is starting, electing a primary or busy answers so for a moment.
_PASSING = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ")

_PROBLEMS = {
    "WRONGTYPE": "a key of another type stands where {server} should keep this lock; delete it or "
    "choose another REDIS_LOCKS['PREFIX']",
    "READONLY": "{server} is a read-only replica; point CONNECTION at the primary, or at its "
    "Sentinels",
    "OOM ": "{server} is out of memory and takes no locks",
    "NOREPLICAS": "{server} has too few replicas that keep up, and so takes no locks; see its "
    "min-replicas-to-write",
}

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


def no_permission(text: str, description: str) -> LockBackendError:
    """Return what to raise when our user lacks a right; `text` is what the server says."""
    return LockBackendError(
        f"{description} denies our user a right: {text}. Locks need the keys PREFIX{{*, the "
        "channels PREFIX:* and some commands: `manage.py locks doctor` says which are missing, "
        "and prints the ACL rule that grants them"
    )


def _protocol_mismatch(text: str) -> ProtocolMismatch:
    _, theirs, ours, left_ms, *_ = text.split()
    retry_after = int(left_ms) / 1000
    return ProtocolMismatch(
        "A process with another version of django-redis-locks uses this lock: it speaks protocol "
        f"{theirs}, and this process speaks protocol {ours}. Stop the processes with the other "
        "version, or give this one a REDIS_LOCKS['PREFIX'] of its own. The other version's lease "
        f"ends in {retry_after:.1f} s unless it is renewed",
        theirs,
        ours,
        retry_after,
    )


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
        return no_permission(text, description)
    for code, problem in _PROBLEMS.items():
        if code in text:
            return LockBackendError(f"{problem.format(server=description)} ({text})")
    return LockBackendError(f"{description} refused: {text}")
