"""What a hold raises: that it is lost, or that it cannot do what it is asked for."""

from __future__ import annotations

from typing import NoReturn, Protocol

from redis_locks.exceptions import LockBackendError, LockError, LockLost, LockNotHeld
from redis_locks.protocol.lease import FORCE_RELEASED, Lease
from redis_locks.values import identity


class AnyHold(Protocol):
    """A hold, as far as its errors go."""

    lease: Lease
    pid: int
    released: bool
    kept: bool

    @property
    def name(self) -> str:
        """The name of its lock."""

    @property
    def is_lost(self) -> bool:
        """Whether it is lost."""


def lost(*leases: Lease) -> LockLost:
    """Return what says that a hold of these leases, the first of which names it, is lost."""
    why = "its lease ended or it was released by somebody else"
    if any(lease.reason == FORCE_RELEASED for lease in leases):
        why = FORCE_RELEASED
    return LockLost(
        f"Lock {leases[0].name!r} was lost: {why}. Do not rely on what was done since; "
        "use a longer lease, renewal, or the fencing token."
    )


def released(name: str) -> LockNotHeld:
    """Return what says that a hold has ended."""
    return LockNotHeld(f"This hold of lock {name!r} was released already; acquire the lock again")


def of_another_process(name: str) -> LockNotHeld:
    """Return what says that a forked child has no hold of its parent's."""
    return LockNotHeld(
        f"The hold of lock {name!r} belongs to the process from which this one was forked"
    )


def require_guarded(lease: Lease, verb: str) -> None:
    """Raise LockBackendError if the block runs without its lock."""
    if lease.is_unguarded:
        msg = (
            f"Lock {lease.name!r} is not held, as Redis could not be asked, so this hold has no "
            f"{verb}: look at hold.is_unguarded first, or use on_unavailable='raise'"
        )
        raise LockBackendError(msg)


def require_alone(verb: str, *leases: Lease) -> None:
    """Raise LockError if another hold shares one of the leases, or if they are to stay closed."""
    for lease in leases:
        require_no_closing(lease, verb)
    if any(lease.is_shared for lease in leases):
        msg = (
            f"Lock {leases[0].name!r} is held by nested blocks of this thread or task as well; "
            f"call {verb} when the inner ones have ended"
        )
        raise LockError(msg)


def require_no_upgrade(lease: Lease) -> None:
    """Raise LockError if the lease is being upgraded."""
    if lease.is_upgrading:
        refuse_upgrading(lease)


def refuse_upgrading(lease: Lease) -> NoReturn:
    """Raise LockError, as the lease is being upgraded."""
    msg = (
        f"The hold of lock {lease.name!r} is being upgraded, by another thread or task; wait for "
        "that"
    )
    raise LockError(msg)


def require_no_rows(lease: Lease) -> None:
    """Raise TypeError if the lease is one of rows.

    A lease that is nested in it is a plain one, but has its intents.
    """
    if lease.intents:
        refuse_rows()


def refuse_rows() -> NoReturn:
    """Raise TypeError, as the hold is one of rows."""
    msg = (
        "a hold of rows is neither upgraded, downgraded nor detached; lock them in the "
        "stronger mode at once, and where they are needed"
    )
    raise TypeError(msg)


def require_closing(lease: Lease, at_least_ms: int) -> None:
    """Raise LockError if a hold around keeps its lock closed for less than `at_least_ms`.

    The hold that is to be nested in it keeps the lock closed for so long.
    """
    if lease.plan.terms.at_least_ms < at_least_ms:
        msg = (
            f"Lock {lease.name!r} is held by a block around this one with a shorter at_least, "
            f"whose end would open it: give that at_least={at_least_ms / 1000:g}, too"
        )
        raise LockError(msg)


def require_no_closing(lease: Lease, verb: str) -> None:
    """Raise LockError if what follows `verb` would not keep the lock closed."""
    if lease.plan.terms.at_least_ms:
        msg = (
            f"Lock {lease.name!r} has at_least, and {verb} would open it before: leave one of them "
            "out"
        )
        raise LockError(msg)


def require_own(lease: Lease, verb: str, fix: str) -> None:
    """Raise unless a hold itself can end with `verb`.

    `fix`: what to do, as a transaction keeps it; "": none does.
    """
    require_guarded(lease, verb)
    require_no_closing(lease, verb)
    if fix:
        msg = f"Lock {lease.name!r} is kept until its transaction ends; {fix}"
        raise LockError(msg)
    require_no_upgrade(lease)


def require_movable(lease: Lease, *, kept: bool) -> None:
    """Raise unless a hold, which a transaction has `kept`, can be given away."""
    require_own(lease, "detach()", "take it with scope='block' to detach it" if kept else "")
    require_no_rows(lease)
    require_alone("detach()", lease)
    if lease.plan.terms.crash_release:
        msg = (
            f"Lock {lease.name!r} is to be released when its process ends (crash_release): it "
            "cannot be given away"
        )
        raise LockError(msg)


def require_held(hold: AnyHold) -> None:
    """Raise LockNotHeld if it was released, or belongs to another process."""
    if hold.pid != identity.process.pid:
        raise of_another_process(hold.name)
    if hold.released:
        raise released(hold.name)


def require_detachable(hold: AnyHold) -> None:
    """Raise unless a hold can be given away."""
    require_held(hold)
    require_movable(hold.lease, kept=hold.kept)
    if hold.is_lost:
        raise lost(hold.lease)
