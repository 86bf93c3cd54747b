"""The state of a hold: what it is called, whether it is lost, and how it asks Redis."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Final, NoReturn, TypeVar

from redis_locks import identity, store
from redis_locks.backends import Backend
from redis_locks.drivers.base import Driver, Link, LinkBroken
from redis_locks.exceptions import LockBackendError, LockError, LockLost, LockNotHeld
from redis_locks.identity import note_unconfirmed
from redis_locks.leases import FORCE_RELEASED, Lease
from redis_locks.persisting import persist
from redis_locks.tenure import Tenure

T = TypeVar("T")

LONGEST: Final = 60.0
"""Seconds after which nobody tries on, however long the lease."""


class Possession:
    """What a hold knows about itself, and how it asks Redis. Callers get a `Hold`."""

    __slots__ = ("_backend", "_pid", "_released", "_tenure", "kept", "read")

    def __init__(self, backend: Backend, tenure: Tenure, read: Sequence[Any] = ()) -> None:
        self._backend = backend
        self._pid = identity.process.pid
        self._released = False
        self._tenure = tenure
        self.read = read
        """Replies to the commands that the lock was given to `read`: bytes, numbers, None, lists."""
        self.kept = False
        """Whether a transaction keeps this hold: its release takes effect when that has ended."""

    @property
    def _lease(self) -> Lease:
        return self._tenure.lease

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._lease.name

    @property
    def mode(self) -> str:
        """How the lock is held: "exclusive", "shared" or "permit:CAPACITY"."""
        return self._lease.mode

    @property
    def fencing_token(self) -> int:
        """A number above that of every earlier hold of this lock, for the resource to check."""
        return self._lease.fencing_token

    @property
    def token(self) -> str:
        """The random proof of this hold; nested holds share it.

        A hold that passed from another thread or task of this process starts with that one's, and gets its
        own when it has lasted for a while.
        """
        return self._lease.token

    @property
    def parts(self) -> Sequence[Possession]:
        """What is held on the server, each with a lease of its own: this, or a hold a partition."""
        return (self,)

    @property
    def is_lost(self) -> bool:
        """Whether the lease ended, or the hold was revoked, before it was released.

        Asks nobody: it compares clocks, so it is true the moment the lease ends, also after
        this process was stopped for a while. A forked child has lost its parent's hold.
        """
        lease = self._tenure.lease
        return (
            self._pid != identity.process.pid
            or lease.lost
            or (not self._released and lease.is_over())
        )

    @property
    def remaining(self) -> float:
        """Seconds until the lease ends unless renewed; 0 when released or lost."""
        if self._released or self.is_lost:
            return 0.0
        return max(0.0, self._lease.deadline - monotonic())

    def __repr__(self) -> str:
        state = (
            "released"
            if self._released
            else "lost"
            if self.is_lost
            else f"{self.remaining:.1f} s left"
        )
        return f"<Hold of {self.name!r}, {state}, fencing token {self.fencing_token}>"

    def check(self) -> None:
        """Return if the lock is still held; does no I/O.

        Raises:
            LockLost: The hold is lost.
            LockNotHeld: It was released, or belongs to another process.
        """
        self._require_held()
        if self.is_lost:
            raise self._lost()

    async def _persist(
        self, driver: Driver, action: Callable[[Link], Coroutine[Any, Any, T]]
    ) -> tuple[T, bool]:
        """Run `action`, again on a new link if one breaks; return its reply and whether it ran again.

        It goes on until the lease ends, for then there is nothing left to save.
        """
        until = min(self._tenure.lease.deadline, monotonic() + LONGEST)
        try:
            return await persist(driver, action, until)
        except LinkBroken as error:
            msg = f"{self._backend.description} does not answer ({error}); lock {self.name!r} ends with its lease"
            raise LockBackendError(msg) from error

    async def _restate(self, driver: Driver) -> None:
        """Have Redis know a hold that passed to us inside this process as ours, if it does not yet.

        Raises LockLost, LockBackendError.
        """
        lease = self._lease
        own, token = lease.own, lease.token
        if own is None or not lease.restates():
            return
        if not lease.renews:
            own = replace(own, lease_ms=0)  # it ends when it would have
        sent = monotonic()
        adopted, _ = await self._persist(
            driver, lambda link: store.adopt(link, own, token, lease.fencing_token)
        )
        if adopted is None or lease.is_over():
            lease.lost = True
            raise self._lost()
        lease.restated()
        lease.renewed_until(sent + adopted.left_ms / 1000)
        self._tenure.renewer.add(lease)

    def _require_held(self) -> None:
        if self._pid != identity.process.pid:
            raise self._of_another_process()
        if self._released or self._tenure.lease.passed:
            msg = f"This hold of lock {self.name!r} was released already; acquire the lock again"
            raise LockNotHeld(msg)

    def _require_alone(self, verb: str) -> None:
        if self._tenure.is_shared:
            msg = (
                f"Lock {self.name!r} is held by nested blocks of this thread or task as well; "
                f"call {verb} when the inner ones have ended"
            )
            raise LockError(msg)

    def _require_no_rows(self) -> None:
        # One that is nested in a hold of rows is a plain one, but has its intents.
        if self._tenure.intents:
            self._refuse_rows()

    def _refuse_rows(self) -> NoReturn:
        msg = (
            "a hold of rows is neither upgraded, downgraded nor detached; lock them in the "
            "stronger mode at once, and where they are needed"
        )
        raise TypeError(msg)

    def _of_another_process(self) -> LockNotHeld:
        return LockNotHeld(
            f"The hold of lock {self.name!r} belongs to process {self._pid}, from which this one was forked"
        )

    def _lost(self) -> LockLost:
        why = "its lease ended or it was released by somebody else"
        if any(part._lease.revoked for part in self.parts):  # noqa: SLF001 - one class
            why = FORCE_RELEASED
        return LockLost(
            f"Lock {self.name!r} was lost: {why}. Do not rely on what was done since; "
            "use a longer lease, renewal, or the fencing token."
        )

    def __del__(self) -> None:
        # Without a default, a hold whose making was interrupted would complain about itself.
        released = getattr(self, "_released", True)
        if released or self._lease.ended:  # ended: a release was tried, and said what was wrong
            return
        if self._pid != identity.process.pid:
            return
        self._lease.leave_line()
        if not self._lease.is_over():
            if self._tenure.leave(self):
                self._lease.ended = True  # also if the warning keeps us from going away
                note_unconfirmed(self._lease.token)  # it is in nobody's way for long
            warnings.warn(
                f"A hold of lock {self.name!r} was dropped without release(); it ends with its lease",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
