"""Locks of several partitions: no script reaches them all, so they are acquired one after another.

Every process takes partitions in the same order, so two sets never wait for each other. Partitions
that are acquired are renewed while the others are waited for. They are given back if another one is
not available.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from math import inf
from time import monotonic
from typing import Any

from redis_locks.conf.settings import Unset
from redis_locks.drivers.base import Driver
from redis_locks.exceptions import LockBackendError, LockError, LockLost
from redis_locks.locks.conversions import give_back, undo_upgrade
from redis_locks.locks.hold import Hold
from redis_locks.locks.hold_errors import lost, require_alone
from redis_locks.locks.releases import Begun
from redis_locks.protocol import replication, store
from redis_locks.protocol.lease import NOT_KNOWN
from redis_locks.protocol.plans import Plan
from redis_locks.protocol.retry import persist
from redis_locks.protocol.store import Refused

Take = Callable[[Plan, float | None], Coroutine[Any, Any, Hold | Refused]]
"""Acquires the locks of one partition, waiting for so many seconds; what it returns is renewed."""


class Deadline:
    """Until when the locks of all partitions have to be there; `wait` as for a lock."""

    def __init__(self, wait: float | None) -> None:
        self._until = inf if wait is None else monotonic() + wait
        # A wait that is over is still one: 0 means that there was none to begin with.
        self._least = 0.0 if wait == 0 else 0.001

    def left(self) -> float | None:
        """Return the seconds that are left; None if it never comes."""
        return None if self._until == inf else max(self._least, self._until - monotonic())

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return monotonic() >= self._until


class SpreadHold(Hold):
    """One possession of locks of several partitions, made of a hold of each.

    Its `token` is that of the first one. Its fencing token is above that of every earlier hold
    of each of its locks.
    """

    ends_plainly = False

    def __init__(self, parts: Sequence[Hold]) -> None:
        self._parts = tuple(parts)
        first = parts[0]
        super().__init__(first.backend, first.lease)

    @property
    def mode(self) -> str:
        """How all its locks are held; "shared" if nested blocks have some of them exclusively."""
        modes = {part.mode for part in self._parts}
        return modes.pop() if len(modes) == 1 else "shared"

    @property
    def parts(self) -> Sequence[Hold]:
        """The holds of its partitions."""
        return self._parts

    @property
    def fencing_token(self) -> int:
        """See `Hold.fencing_token`; 0 if one of its locks is not guarded."""
        return min(part.fencing_token for part in self._parts)

    @property
    def is_unguarded(self) -> bool:
        """Whether one of its locks is not guarded, as an outer block runs without it.

        See `Hold.is_unguarded`.
        """
        return any(part.is_unguarded for part in self._parts)

    @property
    def is_lost(self) -> bool:
        """Whether one of its locks is lost; see `Hold.is_lost`."""
        return any(part.is_lost for part in self._parts)

    @property
    def remaining(self) -> float:
        """Seconds until the first of its leases ends unless renewed; 0 when released or lost."""
        return 0.0 if self.is_lost else min(part.remaining for part in self._parts)

    async def extend_on(self, driver: Driver, milliseconds: int) -> None:
        """See `extend`."""
        self.check()
        for part in self._parts:
            await part.extend_on(driver, milliseconds)

    async def release_on(
        self,
        driver: Driver,
        begun: Begun = None,  # noqa: ARG002 - nothing is
    ) -> None:
        """See `release`."""
        if self.released:
            return
        if self.kept:
            if self.is_lost:
                raise lost(*[part.lease for part in self._parts])
            return
        last = self.last_moment or monotonic() + self.backend.release_timeout
        self._share_time(self.last_moment)  # not that of an earlier try

        async def release(part: Hold) -> None:
            try:
                await part.release_on(driver)
            except LockBackendError:
                self._share_time(last)
                raise

        failure = await _each(self._parts, release)
        self.released = all(part.released for part in self._parts)
        if failure is not None:
            raise failure

    def _share_time(self, last: float) -> None:
        """Let the caller wait for the end of all parts until `last`; see `last_moment`."""
        for part in self._parts:
            part.last_moment = last

    async def commit_on(self, driver: Driver, pipe: Any) -> None:  # noqa: ARG002 - as a hold's
        """Refuse; see the error."""
        msg = (
            f"the locks {self.name} are in several partitions, and one step reaches only one of "
            'them. Send the commands by themselves, or set REDIS_LOCKS["PARTITIONS"] to 1'
        )
        raise ValueError(msg)

    async def detach_on(
        self,
        driver: Driver,  # noqa: ARG002 - as a hold's
        lease: float | Unset,  # noqa: ARG002 - as a hold's
    ) -> str:
        """Refuse; see the error."""
        msg = (
            f"the locks {self.name} are in several partitions, and no one step could adopt them: "
            "detach holds of one lock each"
        )
        raise LockError(msg)

    async def upgrade_on(self, driver: Driver, seconds: float | None) -> Refused | None:
        """See `Hold.upgrade_on`: all become exclusive, or none."""
        self.check()
        if self.mode == "exclusive":
            return None
        deadline = Deadline(seconds)
        try:
            for part in self._parts:
                refused = await part.upgrade_on(driver, deadline.left())
                if refused is not None:
                    await driver.finish(undo_upgrade(driver, self))
                    return refused
            if not await level(driver, self._parts, extend=False):
                raise lost(*[part.lease for part in self._parts])
        except BaseException:
            await driver.finish(undo_upgrade(driver, self))
            raise
        return None

    async def downgrade_on(self, driver: Driver) -> None:
        """See `downgrade`."""
        self.check()
        if all(part.mode == "shared" and part.lease.is_settled for part in self._parts):
            return
        require_alone("downgrade()", *[part.lease for part in self._parts])
        failure = await _each(self._parts, lambda part: part.downgrade_on(driver))
        if failure is not None:
            raise failure

    def drop(self) -> bool:
        """See `Hold.drop`."""
        dropped = [part.drop() for part in self._parts]
        return any(dropped)

    def leave_behind(self) -> None:
        """See `Hold.leave_behind`."""
        for part in self._parts:
            part.leave_behind()
        self.released = True

    def __del__(self) -> None:
        # One warning is enough: the first part gives it.
        for part in getattr(self, "_parts", ())[1:]:
            part.drop()


async def acquire(
    driver: Driver,
    take: Take,
    plans: Sequence[Plan],
    wait: float | None,
    made: Callable[[Sequence[Hold]], SpreadHold] = SpreadHold,
) -> SpreadHold | Refused:
    """Acquire the locks of all partitions within `wait` seconds in all (None: for ever).

    If they are not to be renewed, the renewal ends when all are held, each with a whole lease from
    then on. `made` makes one hold of those of the partitions.

    Returns `Refused` when another holder still had one of them at the end. Then nothing is held.
    Nor is it after an error, an interrupt or a cancellation; or only until its lease ends.

    Raises:
        LockLost: One of them was lost while the others were waited for, and no time is left.
    """
    deadline = Deadline(wait)
    parts: list[Hold] = []
    try:
        while True:
            for plan in plans:
                outcome = await take(plan, deadline.left())
                if isinstance(outcome, Refused):
                    await _give_back(driver, parts)
                    return outcome
                parts.append(outcome)
            if await level(driver, parts, extend=True):
                if not plans[0].terms.renews:
                    _stop_renewal(parts)
                return made(parts)
            if deadline.is_over():
                msg = (
                    f"Lock {parts[0].name!r} was lost in part while the rest was acquired; use a "
                    "longer lease"
                )
                raise LockLost(msg)
            await _give_back(driver, parts)
            parts.clear()
    except BaseException as error:
        await _give_back(driver, parts, error)
        raise


def _stop_renewal(parts: Sequence[Hold]) -> None:
    for part in parts:
        if not part.lease.is_shared:  # else it is an outer hold's
            part.lease.stop_renewing()


async def level(driver: Driver, parts: Sequence[Hold], *, extend: bool) -> bool:
    """Give all parts the highest of their fencing tokens; False if one is lost.

    With `extend` each gets a whole lease, too.

    Nodes have clocks of their own. Without this, the next holder of one of the locks might get a
    smaller fencing token than this hold shows.
    """
    highest = max(part.fencing_token for part in parts)
    for part in parts:
        milliseconds = part.lease.lease_ms if extend else 0
        if not await _raised(driver, part, milliseconds, highest):
            return False
    return True


async def _raised(driver: Driver, part: Hold, milliseconds: int, fencing_token: int) -> bool:
    if part.is_unguarded:
        return True  # it has no fencing token, and never ends by itself
    lease = part.lease
    sent = monotonic()
    left, _ = await persist(
        driver,
        lambda link: store.raise_fence(link, lease.keys, lease.token, milliseconds, fencing_token),
        lease.deadline,
        lock=lease.name,
    )
    if left is None:
        lease.lose(NOT_KNOWN)
    if left is None or lease.is_over():
        return False
    lease.raise_fence(fencing_token)
    if lease.request.replicas:
        return await replication.extend(driver, lease, milliseconds)
    lease.extend(sent + left / 1000)
    return True


async def _give_back(
    driver: Driver, parts: Sequence[Hold], error: BaseException | None = None
) -> None:
    # A server that is silent has cost its time: the background goes on.
    last = monotonic() + (0.0 if isinstance(error, LockBackendError) else driver.reply_timeout)
    for part in parts:
        part.last_moment = last
        part.stays_closed = part.lease.is_shared  # by an outer hold's work, and not by ours
    failure = await _each(parts, lambda part: give_back(part, driver))
    if failure is not None and not isinstance(failure, LockError):
        raise failure  # an interrupt


async def _each(
    parts: Sequence[Hold], action: Callable[[Hold], Awaitable[None]]
) -> BaseException | None:
    """Do it to every part, the last first, and return what went wrong; interrupts go first."""
    failure: BaseException | None = None
    for part in reversed(parts):
        try:
            await action(part)
        except LockError as error:
            failure = failure or error
        except BaseException as interrupt:  # noqa: BLE001 - the caller raises it
            failure = interrupt
    return failure
