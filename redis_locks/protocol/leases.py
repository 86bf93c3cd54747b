"""The lease of a hold, on this process's clock, and what is told of how the hold goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any, Final, Literal, Protocol

from redis_locks import scripts
from redis_locks.drivers.base import Call, Driver
from redis_locks.drivers.bells import Bell
from redis_locks.protocol import lock_events, store
from redis_locks.protocol.store import Request
from redis_locks.scripts import Script
from redis_locks.values.identity import note_unconfirmed

YOUNG: Final = 0.05
"""Seconds for which nobody asks who holds: so long what Redis says of a hold may be out of date."""

FORCE_RELEASED: Final = "an operator force-released it"
"""Why a hold is lost whose process was told so."""


class Line(Protocol):
    """Where a hold may pass to another thread or task of this process; see `lines`."""

    def leave(self, lease: Lease, *, lost: bool = False) -> bool:
        """End a hold. True: it has passed on, and Redis is not to be told."""

    def end(self, asker: str) -> None:
        """Note that the one in front, if it is this one, asks and holds no more."""


class Heir(Protocol):
    """To whom a hold has passed."""

    before: Lease | None
    """The lease of the hold, as soon as it has."""
    bell: Bell


_DECIDED: list[bool] = []


class Lease:
    """The lease of one hold, on this process's monotonic clock."""

    # What nearly all leases have in common is of the class: to set it for each takes long.

    script = scripts.EXTEND
    """What extends it: takes the arguments of `extend.lua` and replies as it does."""
    lost = False
    revoked = False
    """Whether it was told that it is lost because somebody force-released its hold."""
    upgrading = -inf
    """Until when it was being turned into another lease, inf while it is: "not held" may mean just that."""
    ended = False
    """Whether its hold was released or dropped: a renewal under way no longer tells anything."""
    commands: Sequence[Sequence[bytes]] | None = None
    """What was to be applied with its end, once that was sent."""
    on_lost: Callable[[], None] | None = None
    """Is called once when it is found lost by whoever renews or hears, in their thread."""
    line: Line | None = None
    """Where it may pass on, if it may."""
    heir: Heir | None = None
    """To whom it is passing on; None again when that one has been told."""
    passed = False
    """Whether it has passed on: what its token holds is another one's from then on."""
    own: Request | None = None
    """Of a hold that passed to us, until Redis knows: our request; `token` is still that of another one."""
    undecided = _DECIDED
    """Of a hold that passed to us: empty once it is passed on, or told to Redis."""
    restating = False
    """Whether it is the latter."""
    fencing_token = 0
    since = deadline = due = 0.0

    def __init__(
        self,
        request: Request,
        deadline: float,
        fencing_token: int,
        *,
        name: str | None = None,
        mode: str | None = None,
        script: Script | None = None,
        renews: bool = True,
        since: float | None = None,
    ) -> None:
        lease_ms = request.lease_ms
        self.request = request
        """What it was granted to."""
        self.name = name or request.name
        """The name of the hold's locks; `request` may be for those of one partition only."""
        self.keys = request.keys
        self.token = request.token
        self.lease_ms = lease_ms
        self.fencing_token = fencing_token
        self.mode = mode or request.mode
        if script or request.replicas:
            self.script = script or scripts.CONFIRM
        began = deadline - lease_ms / 1000
        self.since = began if since is None else since
        self.renews = renews
        """Whether it is renewed; else it ends at its deadline."""
        self.untold = [True]
        """Empty once somebody was told how the hold ended. Shared by the leases of one hold."""
        self.deadline = deadline
        """When it ends; see `renewed_until`, as which this does."""
        self.due = began + (deadline - began) / 3 if renews else deadline
        """When to renew it, or to look at it, next."""

    def takes_over(self, token: str) -> None:
        """Note that it passed to us from another thread or task, whose token is in Redis."""
        self.own, self.token = self.request, token
        self.undecided = [True]
        self.since = monotonic()
        self.due = min(self.due, self.since + YOUNG)

    @property
    def asker(self) -> str:
        """The token with which it was asked for."""
        own = self.own  # once: whoever renews may set it to None meanwhile
        return self.token if own is None else own.token

    def decides(self) -> bool:
        """Return True to one only of those who would pass the hold on, or write down in Redis whose it is."""
        if self.own is None:
            return True
        try:
            return self.undecided.pop()  # whole even if two threads come at once
        except IndexError:
            return False

    def restates(self) -> bool:
        """Return whether Redis is to be told now that the hold is ours; then it passes on no more."""
        if self.own is None:
            return False
        self.restating = self.restating or self.decides()
        return self.restating

    def restated(self) -> None:
        """Note that Redis knows the hold as ours."""
        own = self.own
        if own is not None:
            # In this order: whoever reads `own` first and `token` then misses neither.
            self.token = own.token
            self.own = None
            if not self.renews:
                note_unconfirmed(self.token)  # it ends by itself

    @property
    def extension(self) -> tuple[Script, Call]:
        """What renews it; for one that is not renewed, what tells whether it is held still."""
        own, milliseconds = self.own, self.lease_ms if self.renews else 0
        if own is None:
            return self.script, store.extend_call(self.keys, self.token, milliseconds)
        return scripts.ADOPT, store.adopt_call(
            replace(own, lease_ms=milliseconds), self.token, self.fencing_token
        )

    def leave_line(self) -> None:
        """Let the next in line ask Redis, as this hold will not pass on."""
        if self.line is not None:
            self.line.end(self.asker)

    def renewed_until(self, deadline: float) -> None:
        """Note that the lease ends at `deadline`, and when to renew it next."""
        self.deadline = deadline
        self.due = deadline - self.lease_ms / 1000 * 2 / 3 if self.renews else deadline

    def renews_if(self, renews: bool) -> None:  # noqa: FBT001 - a verb's object
        """Say whether it is renewed; else it ends at its deadline."""
        if not renews:
            self.renews, self.due = False, self.deadline

    def is_over(self) -> bool:
        """Return whether the hold is lost. Once true it stays true, whatever arrives later."""
        if not self.lost and monotonic() >= self.deadline:
            self.lost = True
        return self.lost

    def revoke(self) -> None:
        """Note that somebody force-released its hold, if it was not lost before."""
        self.revoked = self.revoked or not self.is_over()  # before `lost`: who sees that asks why
        self.lost = True

    def first_told(self) -> bool:
        """Return True once: to whoever is to tell how the hold ended."""
        try:
            return self.untold.pop()  # whole even if two threads come at once
        except IndexError:
            return False


async def tell(driver: Driver, kind: lock_events.Kind, lease: Lease, **details: Any) -> None:
    """Tell what became of a hold; raises no Exception. Takes as long as those who listen."""
    hold: dict[str, Any] = {
        "mode": lease.mode,
        "fencing_token": lease.fencing_token,
        "since": lease.since,
    }
    await lock_events.tell(driver, kind, lease.request, **hold, **details)


async def tell_acquired(driver: Driver, lease: Lease, *, wait: float | None, waited: float) -> None:
    """Tell that a hold began; and that it ended, if the caller is interrupted and so gives it back."""
    try:
        await tell(driver, "acquired", lease, wait=wait, waited=waited)
    except BaseException:
        await driver.finish(tell_released(driver, lease))
        raise


async def tell_moved(driver: Driver, kind: Literal["detached", "adopted"], lease: Lease) -> None:
    """Tell, if somebody listens, that the hold goes on elsewhere, or that it goes on here."""
    if lock_events.counted(kind, lease.request, driver):
        await tell(driver, kind, lease, held=monotonic() - lease.since)


async def tell_released(driver: Driver, lease: Lease) -> None:
    """Tell, if somebody listens, that the hold was released."""
    held = monotonic() - lease.since
    observer = lock_events.observer
    try:
        lease.untold.pop()  # as `first_told`
    except IndexError:
        return
    if observer is not None and observer.count(
        "released", lease.request.names, driver.description, held
    ):
        await tell(driver, "released", lease, held=held)


async def tell_lost(driver: Driver, lease: Lease) -> None:
    """Tell, unless that was done, that the hold is lost."""
    end = min(monotonic(), lease.deadline)
    if lease.first_told() and lock_events.counted("lost", lease.request, driver, end - lease.since):
        if lease.revoked:
            reason = FORCE_RELEASED
        elif end == lease.deadline:
            reason = "its lease ended"
        else:
            reason = "Redis does not know our hold any more"
        await tell(driver, "lost", lease, held=end - lease.since, reason=reason)
