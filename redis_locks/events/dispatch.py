"""Pass what the core tells to the log, to the statistics and to the receivers of Django signals."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, Union, get_args

from redis_locks.conf.settings import get_settings
from redis_locks.events import log_lines
from redis_locks.events.log_lines import LEVELS
from redis_locks.protocol import lock_events
from redis_locks.protocol.lock_events import CountedLease, HoldKind, Kind, LockEvent
from redis_locks.signals import LOCK_SIGNALS
from redis_locks.values.histogram import bucket_of
from redis_locks.values.interrupts import is_interrupt, raise_interrupt
from redis_locks.values.keys import MANY_NAMES

if TYPE_CHECKING:
    from redis_locks.protocol.plans import Plan

logger = logging.getLogger("redis_locks")

FREQUENT: Final = frozenset({"acquired", "contended"})
"""The kinds of which a process may have thousands a second."""

_NOTED: Final = frozenset({"lost", "timed_out", "deadlock"})

ENDS: Final = frozenset({"released", "lost"})
"""The kinds that end a hold."""

_HOLDS: Final = {kind: (LOCK_SIGNALS[kind], LEVELS[kind]) for kind in get_args(HoldKind)}
"""The signal of each kind of `count_hold`, and the level of the log."""

Counted = Union["Plan", tuple[str, tuple[str, ...]]]
"""How a hold was asked for; of what is no hold, the server and the names."""

Pending = tuple[Kind, Counted, int | None]
"""What is to be counted: the kind, of what, and the bucket of the wait or hold that ended with it,
if one did.
"""

HoldNote = tuple["Plan", HoldKind, str, float, float, int]
"""What is to be noted of a hold: its plan, the kind, the thread or task, when, the seconds, and its
fencing token.
"""


class EventCounter(Protocol):
    """What counts beside the log and the signals, and never blocks."""

    pending: deque[Pending]
    """What it has yet to count."""
    most: int
    """How much that may be before it is to catch up."""
    begun: list[HoldNote]
    """Its notes of holds that have begun, but for those of many locks."""
    hold_notes: deque[HoldNote]
    """What it has yet to note of other holds."""
    noted: set[Plan]
    """How holds were asked for of which it has noted enough beginnings for now."""
    full: set[str | tuple[str, str]]
    """The servers, or servers and names, of which it has enough events of the frequent kinds for
    now.
    """

    def catch_up(self) -> None:
        """Count what is pending."""

    def listens(self, kind: Kind) -> bool:
        """Return whether it takes events of this kind."""

    def take(self, event: LockEvent) -> None:
        """Take an event, which it or another receiver wanted."""


def _wants_note(counter: EventCounter, server: str, names: tuple[str, ...]) -> bool:
    """Return whether it has not enough notes of frequent kinds of these locks."""
    return server not in counter.full and (server, names[0]) not in counter.full


class Teller:
    """The observer of a Django process. An event is made only if a receiver wants it."""

    def __init__(self, statistics: EventCounter | None = None) -> None:
        self.statistics = statistics
        """Where to count, if anywhere."""

    def listens(self, kind: Kind) -> bool:
        """Return whether anything takes events of this kind.

        That is a receiver that is connected, the log, or the statistics.
        """
        counter = self.statistics
        return (counter is not None and counter.listens(kind)) or self._told(kind)

    def _told(self, kind: Kind) -> bool:
        # What is not logged by itself is in the lines of the server's outage.
        logs = kind in LEVELS and logger.isEnabledFor(LEVELS[kind])
        if kind == "waiting":
            return logs and get_settings().log_lock_waits
        signal = LOCK_SIGNALS.get(kind)  # some are for the log only
        return logs or (signal is not None and bool(signal.receivers))

    def count(self, kind: Kind, names: tuple[str, ...], server: str, seconds: float) -> bool:
        """Count it, and return whether a receiver wants the whole event."""
        counter = self.statistics
        if counter is not None and counter.listens(kind):
            counter.pending.append((kind, (server, names), bucket_of(seconds) if seconds else None))
            if len(counter.pending) >= counter.most or len(names) > MANY_NAMES:
                counter.catch_up()
            if kind in _NOTED or (kind in FREQUENT and _wants_note(counter, server, names)):
                return True
        return self._told(kind)

    def count_hold(self, kind: HoldKind, seconds: float, lease: CountedLease) -> bool:
        """Count that somebody else had the locks, or that a hold has begun, or ended.

        Return whether a receiver wants the whole event.
        """
        # All in one function, as each hold calls it twice. Its note needs no event.
        counter = self.statistics
        if counter is not None and (settings := get_settings()).statistics:
            plan, pending = lease.plan, counter.pending
            pending.append((kind, plan, bucket_of(seconds) if seconds else None))
            if (
                plan not in counter.noted
                if kind == "acquired"
                else settings.history and kind == "released"
            ):
                is_begun = kind == "acquired"
                at = lease.since if is_begun else lease.since + seconds
                note = plan, kind, lease.session.unit, at, seconds, lease.fencing_token
                waits = is_begun and not plan.is_large
                (counter.begun if waits else counter.hold_notes).append(note)
            if len(pending) >= counter.most or plan.is_large:
                counter.catch_up()
            if kind == "lost" or (
                kind == "contended"
                and plan not in counter.noted  # a plan of other reads is another one
                and _wants_note(counter, plan.terms.description, plan.names)
            ):
                return True
        signal, level = _HOLDS[kind]
        return logger.isEnabledFor(level) or bool(signal.receivers)

    async def tell(self, event: LockEvent, *, task: bool) -> None:
        """Log the event and send its signal.

        Suspends only if `task`; raises only what interrupts it.
        """
        try:
            log_lines.log(event)
            counter = self.statistics
            if counter is not None and counter.listens(event.kind):
                counter.take(event)
            signal = LOCK_SIGNALS.get(event.kind)
            if signal is None or not signal.receivers:
                return
            if task:
                await signal.asend_robust(sender=LockEvent, event=event)
            else:
                raise_interrupt(signal.send_robust(sender=LockEvent, event=event))
        except Exception as error:
            if is_interrupt(error):
                raise
            # An async receiver in blocking code under a running event loop cannot be called.
            logger.exception("Telling that lock %r %s failed", event.name, event.kind)


teller: Final = Teller()
"""That of this process."""


def start() -> None:
    """Have the core tell this process's log and receivers."""
    lock_events.observer = teller
