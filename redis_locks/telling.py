"""Pass what the core tells to the log, to the statistics and to the receivers of Django signals."""

from __future__ import annotations

import logging
from typing import Protocol

from redis_locks import logs, observing
from redis_locks.conf import get_settings
from redis_locks.observing import Kind, LockEvent
from redis_locks.signals import LOCK_SIGNALS

logger = logging.getLogger("redis_locks")

_levels: dict[int, bool] = getattr(logger, "_cache", {})
"""Where logging keeps what `isEnabledFor` has said, until a level is set anywhere; empty if it does so otherwise."""


class Sink(Protocol):
    """Something quick that takes events beside the log and the signals, and never blocks."""

    def listens(self, kind: Kind) -> bool:
        """Return whether it takes events of this kind."""

    def count(self, kind: Kind, names: tuple[str, ...], server: str, seconds: float) -> bool:
        """Count what has happened, if it counts this kind; return whether it wants the whole event, too."""

    def take(self, event: LockEvent) -> None:
        """Take an event, whether it wanted it or somebody else did."""


sinks: list[Sink] = []


class Teller:
    """The observer of a Django process. An event is made only if somebody wants it."""

    def listens(self, kind: Kind) -> bool:
        """Return whether a receiver is connected, or the log or a sink takes events of this kind."""
        for sink in sinks:
            if sink.listens(kind):
                return True
        return self._told(kind)

    def _told(self, kind: Kind) -> bool:
        if kind == "waiting":  # for the log only
            return get_settings().log_lock_waits and logger.isEnabledFor(logs.LEVELS[kind])
        return bool(LOCK_SIGNALS[kind].receivers) or logger.isEnabledFor(logs.LEVELS[kind])

    def count(self, kind: Kind, names: tuple[str, ...], server: str, seconds: float) -> bool:
        """Let the sinks count, and return whether somebody wants the whole event."""
        # As `_told`, which each lock would call two or three times.
        signal = LOCK_SIGNALS.get(kind)
        if signal is None:
            wanted = self._told(kind)
        else:
            level = logs.LEVELS[kind]
            known = _levels.get(level)
            logged = logger.isEnabledFor(level) if known is None else known and not logger.disabled
            wanted = bool(signal.receivers) or logged
        for sink in sinks:
            if sink.count(kind, names, server, seconds):
                wanted = True
        return wanted

    async def tell(self, event: LockEvent, *, task: bool) -> None:
        """Log the event and send its signal. Suspends only if `task`; raises no Exception."""
        try:
            logs.log(event)
            for sink in sinks:
                if sink.listens(event.kind):
                    sink.take(event)
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


def start() -> None:
    """Have the core tell this process's log and receivers."""
    observing.observer = Teller()
