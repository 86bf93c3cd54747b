"""The lease of a hold, on this process's clock, and what is told of how the hold goes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any

from redis_locks import observing, scripts
from redis_locks.drivers.base import Driver
from redis_locks.scripts import Script
from redis_locks.store import Request


class Lease:
    """The lease of one hold, on this process's monotonic clock."""

    __slots__ = (
        "__weakref__",
        "deadline",
        "due",
        "ended",
        "fencing_token",
        "keys",
        "lease_ms",
        "lost",
        "mode",
        "name",
        "on_lost",
        "renews",
        "request",
        "script",
        "since",
        "token",
        "untold",
        "upgrading",
    )

    def __init__(
        self,
        request: Request,
        deadline: float,
        fencing_token: int,
        *,
        name: str | None = None,
        mode: str | None = None,
        script: Script | None = None,
    ) -> None:
        self.request = request
        """What it was granted to."""
        self.name = name or request.name
        """The name of the hold's locks; `request` may be for those of one partition only."""
        self.keys = request.keys
        self.token = request.token
        self.lease_ms = request.lease_ms
        self.fencing_token = fencing_token
        self.mode = mode or request.mode
        self.script = script or (scripts.CONFIRM if request.replicas else scripts.EXTEND)
        """What extends it: takes the arguments of `extend.lua` and replies as it does."""
        self.lost = False
        self.upgrading = -inf
        """Until when it was being turned into another lease, inf while it is: "not held" may mean just that."""
        self.ended = False
        """Whether its hold was released or dropped: a renewal under way no longer tells anything."""
        self.since = deadline - request.lease_ms / 1000
        self.renews = True
        """Whether it is renewed; else it ends at its deadline."""
        self.on_lost: Callable[[], None] | None = None
        """Is called once when it is found lost by whoever renews or hears, in their thread."""
        self.untold = [True]
        """Empty once somebody was told how the hold ended. Shared by the leases of one hold."""
        self.renewed_until(deadline)

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

    def first_told(self) -> bool:
        """Return True once: to whoever is to tell how the hold ended."""
        try:
            return self.untold.pop()  # whole even if two threads come at once
        except IndexError:
            return False


async def tell(driver: Driver, kind: observing.Kind, lease: Lease, **details: Any) -> None:
    """Tell what became of a hold; raises no Exception. Takes as long as those who listen."""
    hold: dict[str, Any] = {
        "mode": lease.mode,
        "fencing_token": lease.fencing_token,
        "since": lease.since,
    }
    await observing.tell(driver, kind, lease.request, **hold, **details)


async def tell_acquired(driver: Driver, lease: Lease, *, wait: float | None, waited: float) -> None:
    """Tell that a hold began; and that it ended, if the caller is interrupted and so gives it back."""
    try:
        await tell(driver, "acquired", lease, wait=wait, waited=waited)
    except BaseException:
        await driver.finish(tell_released(driver, lease))
        raise


async def tell_released(driver: Driver, lease: Lease) -> None:
    """Tell, if somebody listens, that the hold was released."""
    held = monotonic() - lease.since
    if lease.first_told() and observing.counted("released", lease.request, driver, held):
        await tell(driver, "released", lease, held=held)


async def tell_lost(driver: Driver, lease: Lease) -> None:
    """Tell, unless that was done, that the hold is lost."""
    end = min(monotonic(), lease.deadline)
    if lease.first_told() and observing.counted("lost", lease.request, driver, end - lease.since):
        over = end == lease.deadline
        reason = "its lease ended" if over else "Redis does not know our hold any more"
        await tell(driver, "lost", lease, held=end - lease.since, reason=reason)
