"""What the caller has around its code.

An acquire would wait for it, and so for the caller itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from weakref import ref

from redis_locks.connections.backends import Backend
from redis_locks.exceptions import LockError
from redis_locks.protocol import lease as leases
from redis_locks.protocol.bridges import may_wait_for, waiting_for
from redis_locks.protocol.callers import Session, sessions_around
from redis_locks.protocol.lease import Lease
from redis_locks.values.modes import Taken


def around(
    session: Session, backend: Backend, names: Iterable[str], may_join: Callable[[Lease], bool]
) -> set[Lease]:
    """Return the leases around the caller that have any of these locks, for each the nearest."""
    server = ref(backend)
    found = leases.find(session.held, server, names, may_join)
    missing = set(names).difference(*(lease.names for lease in found))
    # Most often nobody around has any of them.
    if session.is_called and any(
        (server, name) in held for held in may_wait_for(session) for name in missing
    ):
        for each in waiting_for(session):
            new = leases.find(each.held, server, missing, may_join, each.frames)
            missing = missing.difference(*(lease.names for lease in new))
            found |= new
    return found


def taken_by(lease: Lease, backend: Backend) -> Taken:
    """Return what a lease has of the locks of a server."""
    return Taken(backend, frozenset(lease.names), lease.mode, lease.intents)


def refuse_waiting_for_itself(
    found: Iterable[Lease],
    wanted: Taken,
    *,
    reentrant: bool = True,
    advice: str = "take them together, in the stronger mode, or one after the other",
) -> None:
    """Raise LockError, with `advice`, if one of the leases excludes `wanted`.

    One thread or task has all of the leases.
    """
    for lease in found:
        has = taken_by(lease, wanted.backend)
        if has.excludes(wanted) or not reentrant:
            if not reentrant:
                advice = "release it first, or use reentrant=True"
            msg = (
                f"Lock {', '.join(sorted(wanted.names))!r} ({wanted.mode}) would wait for its own "
                f"thread or task, which holds {lease.name!r} ({lease.mode}): {advice}"
            )
            raise LockError(msg)


def own_hold(session: Session, backend: Backend, names: Iterable[str]) -> str:
    """Return what to say of a hold of these locks that the caller itself, or its request, has.

    Return "" if it has none.
    """
    server = ref(backend)
    for party in dict.fromkeys((session, *session.around, *sessions_around())):
        for lease in list(party.held.open):
            if lease.is_held and any(lease.has(server, name) for name in names):
                unit = (
                    "this thread or task"
                    if party is session
                    else f"its own request, in {party.unit},"
                )
                if lease.mode.startswith("permit:"):
                    return (
                        f"{unit} has a permit itself, in which no block is nested: release that "
                        "before"
                    )
                if lease.place:
                    return (
                        f"{unit} has acquired it by hand at {lease.place}. To nest there, write "
                        "`with hold:` around this code, or give the lock reentrant='thread'"
                    )
                return (
                    f"{unit} has it in a block that does not surround this code. To nest, run this "
                    "code in the block, or release the lock before"
                )
    return ""
