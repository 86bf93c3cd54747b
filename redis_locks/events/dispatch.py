"""Pass what the core tells to the log, to the statistics and to the receivers of Django signals."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, Protocol

from redis_locks.conf.settings import get_settings
from redis_locks.events import log_lines
from redis_locks.events.log_lines import LEVELS
from redis_locks.protocol import lock_events
from redis_locks.protocol.lock_events import Kind, LockEvent
from redis_locks.signals import LOCK_SIGNALS

logger = logging.getLogger("redis_locks")

FREQUENT: Final = frozenset({"acquired", "contended"})
"""The kinds of which a process may have thousands a second."""

_NOTED: Final = frozenset({"lost", "timed_out", "deadlock"})

ENDS: Final = frozenset({"released", "lost"})
"""The kinds that end a hold."""

_KINDS: Final = {
    kind: (signal, LEVELS[kind], kind in FREQUENT, kind in _NOTED, kind in ENDS)
    for kind, signal in LOCK_SIGNALS.items()
}
"""Of each kind that has a signal: that, the level of the log, and which of the three above it is."""


class Statistics(Protocol):
    """What counts beside the log and the signals, and never blocks."""

    pending: deque[tuple[str, Kind, tuple[str, ...], float]]
    """What it has yet to count: servers, kinds, names and seconds."""
    most: int
    """How much that may be before it is to catch up."""
    full: set[str | tuple[str, str]]
    """The servers, or servers and names, of which it has enough events of the frequent kinds for now."""

    def catch_up(self) -> None:
        """Count what is pending."""

    def listens(self, kind: Kind) -> bool:
        """Return whether it takes events of this kind."""

    def take(self, event: LockEvent) -> None:
        """Take an event, which it or another receiver wanted."""


class Teller:
    """The observer of a Django process. An event is made only if a receiver wants it."""

    def __init__(self, statistics: Statistics | None = None) -> None:
        self.statistics = statistics
        """Where to count, if anywhere."""

    def listens(self, kind: Kind) -> bool:
        """Return whether a receiver is connected, or the log or the statistics take events of this kind."""
        its = self.statistics
        return (its is not None and its.listens(kind)) or self._told(kind)

    def _told(self, kind: Kind) -> bool:
        logs = logger.isEnabledFor(LEVELS[kind])
        if kind == "waiting":
            return logs and get_settings().log_lock_waits
        signal = LOCK_SIGNALS.get(kind)  # some are for the log only
        return logs or (signal is not None and bool(signal.receivers))

    def count(self, kind: Kind, names: tuple[str, ...], server: str, seconds: float) -> bool:
        """Count it, and return whether a receiver wants the whole event."""
        # All in one function, as each lock calls it two or three times.
        known = _KINDS.get(kind)
        if known is None:
            return self._told(kind)
        signal, level, frequent, noted, ends = known
        wanted = signal.receivers or logger.isEnabledFor(level)
        its = self.statistics
        settings = get_settings()
        if its is not None and settings.statistics:
            pending = its.pending
            pending.append((server, kind, names, seconds))
            if len(pending) >= its.most:
                its.catch_up()
            if ends and settings.history:
                return True
            if noted or (
                frequent and (server, names[0]) not in its.full and server not in its.full
            ):
                return True
        return bool(wanted)

    async def tell(self, event: LockEvent, *, task: bool) -> None:
        """Log the event and send its signal. Suspends only if `task`; raises no Exception."""
        try:
            log_lines.log(event)
            its = self.statistics
            if its is not None and its.listens(event.kind):
                its.take(event)
            signal = LOCK_SIGNALS.get(event.kind)
            if signal is None or not signal.receivers:
                return
            if task:
                await signal.asend_robust(sender=LockEvent, event=event)
            else:
                signal.send_robust(sender=LockEvent, event=event)
        except Exception:
            # An async receiver in blocking code under a running event loop cannot be called.
            logger.exception("Telling that lock %r %s failed", event.name, event.kind)


teller: Final = Teller()
"""That of this process."""


def start() -> None:
    """Have the core tell this process's log and receivers."""
    lock_events.observer = teller
