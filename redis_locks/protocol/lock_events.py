"""What the core tells of locks, and the one hook through which it does.

Events are told after the fact: a receiver can neither delay a hand-off nor leave a lock behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from redis_locks.drivers.base import Driver
from redis_locks.exceptions import DeadlockDetected, LockBackendError, Wait
from redis_locks.protocol.store import Refused, Request
from redis_locks.values.claims import Who, parse_who
from redis_locks.values.identity import describe_holder
from redis_locks.values.modes import shown

if TYPE_CHECKING:
    from redis_locks.protocol.callers import Held, Session
    from redis_locks.protocol.plans import Plan

Kind = Literal[
    "acquired",
    "detached",
    "adopted",
    "released",
    "contended",
    "lost",
    "timed_out",
    "deadlock",
    "waiting",
    "unguarded",
    "unavailable",
]

HoldKind = Literal["contended", "acquired", "released", "lost"]


@dataclass(frozen=True, slots=True)
class LockEvent:
    """What has happened to a lock, or a set of locks, in this process.

    Each hold tells "acquired" once and then, unless it is dropped without release, either
    "released" or "lost" once. A hold that moves tells "detached" where it was and "adopted" where
    it goes on. What an acquire did not need or get is 0, None or empty.

    Attributes:
        kind: "acquired", "detached", "adopted", "released", "contended", "lost", "timed_out",
            "deadlock" or "unavailable"; the log also gets "waiting", of a wait that is still going
            on after DEADLOCK_TIMEOUT, and "unguarded", of a block that runs without its lock.
        names: The locks; one, but for sets.
        template: The name before its fields were filled in, such as "account:{account_id}", or
            the function's name where a callable names the lock; for metrics, which must not
            have a series for each name. None for a name that was given as it is.
        mode: "exclusive", "shared", "permit:CAPACITY", or "upgrade" while a shared hold waits
            to become exclusive.
        who: The holder or waiter: host, pid, thread or task, and what it runs.
        server: The server, as text for people.
        lease: Seconds of lease that were asked for.
        wait: The longest wait in seconds; None: for ever. Not told of the end of a hold.
        waited: Seconds for which the acquire has waited; 0.0 if the lock was free.
        fencing_token: Of the hold. An upgrade changes it.
        since: When the hold began, on this machine's ``time.monotonic()``; equal for all events of
            a hold in one process.
        held: Seconds from then to the end of the hold, or until it was detached or adopted.
        holder: Who is in the way, as text for people: of "contended", "timed_out", "waiting".
        circle: The waits of a deadlock, this one first.
        reason: How a hold was lost, why the server could not be asked, or why a block runs without
            its lock.
    """

    kind: Kind
    names: tuple[str, ...]
    template: str | None
    mode: str
    who: Who | None
    server: str
    lease: float
    wait: float | None = None
    waited: float = 0.0
    fencing_token: int = 0
    since: float = 0.0
    held: float = 0.0
    holder: str | None = None
    circle: tuple[Wait, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """The name of the lock; those of a set are joined with commas."""
        return ", ".join(self.names)


class CountedLease(Protocol):
    """A lease, as far as it is counted."""

    plan: Plan
    session: Session
    since: float
    fencing_token: int


class Observer(Protocol):
    """The listener."""

    def listens(self, kind: Kind) -> bool:
        """Return whether anybody wants events of this kind; asked before one is made."""

    def count(self, kind: Kind, names: tuple[str, ...], server: str, seconds: float) -> bool:
        """Count what has happened, which needs no event; return whether to `tell` it, too.

        `seconds` is how long the wait or the hold was that ended with it. Most events are only
        counted, and nothing is made for them.
        """

    def count_hold(self, kind: HoldKind, seconds: float, lease: CountedLease) -> bool:
        """Count that somebody else had the locks, or that a hold has begun, or ended.

        See `count`.
        """

    async def tell(self, event: LockEvent, *, task: bool) -> None:
        """Pass the event on. Suspends only if `task`; raises no Exception."""


class Nobody:
    """The observer of a process without receivers."""

    def listens(self, kind: Kind) -> bool:  # noqa: ARG002 - as `Observer`
        """Return False."""
        return False

    # `Observer` gives these two methods their parameters.
    def count(
        self,
        kind: Kind,  # noqa: ARG002
        names: tuple[str, ...],  # noqa: ARG002
        server: str,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> bool:
        """Return False."""
        return False

    def count_hold(
        self,
        kind: HoldKind,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
        lease: CountedLease,  # noqa: ARG002
    ) -> bool:
        """Return False."""
        return False

    async def tell(self, event: LockEvent, *, task: bool) -> None:
        """Do nothing."""


observer: Observer = Nobody()
"""The observer of this process; one only, because it may pass on."""

watch: Callable[[Any, Held, object], None] | None = None
"""Called for each new lease, with what its thread or task had before, and the server; None: nobody
looks.
"""


async def tell(
    driver: Driver, kind: Kind, request: Request, *, mode: str | None = None, **details: Any
) -> None:
    """Tell the observer what became of `request`, which the observer has counted.

    Raises no Exception. In blocking code it takes as long as the receivers do; in async code it may
    suspend.
    """
    event = LockEvent(
        kind=kind,
        names=request.names,
        template=request.template,
        mode=mode or shown(request.mode),
        who=_parsed(request.who),
        server=driver.description,
        lease=request.lease_ms / 1000,
        **details,
    )
    await observer.tell(event, task=driver.suspends)


_parsed = lru_cache(maxsize=1024)(parse_who)


async def tell_refused(
    driver: Driver,
    kind: Literal["contended", "waiting", "timed_out"],
    request: Request,
    refused: Refused,
    *,
    wait: float | None,
    waited: float = 0.0,
) -> None:
    """Tell that another holder has the lock, if a receiver wants to know."""
    if observer.count(kind, request.names, driver.description, waited):
        await tell_of_holder(driver, kind, request, refused, wait=wait, waited=waited)


async def tell_of_holder(
    driver: Driver, kind: Kind, request: Request, refused: Refused, **details: Any
) -> None:
    """Tell what became of `request`, which the observer has counted, and name the lock's holder."""
    await tell(driver, kind, request, holder=describe_holder(refused.claim), **details)


async def tell_deadlock(
    driver: Driver,
    request: Request,
    error: DeadlockDetected,
    *,
    wait: float | None,
    waited: float,
) -> None:
    """Tell that a wait was ended to break a deadlock, if a receiver wants to know."""
    if observer.count("deadlock", request.names, driver.description, waited):
        details: Any = {"wait": wait, "waited": waited, "circle": error.circle}
        await tell(driver, "deadlock", request, **details)


async def tell_unavailable(
    driver: Driver,
    request: Request,
    error: LockBackendError,
    *,
    wait: float | None,
    waited: float,
) -> None:
    """Tell that an acquire ended as the server could not be asked, if a receiver wants to know."""
    if observer.count("unavailable", request.names, driver.description, waited):
        details: Any = {"wait": wait, "waited": waited, "reason": str(error)}
        await tell(driver, "unavailable", request, **details)
