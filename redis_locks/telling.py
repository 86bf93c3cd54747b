"""Pass what the core tells to the log and to the receivers of Django signals."""

from __future__ import annotations

import logging

from redis_locks import logs, observing
from redis_locks.conf import get_settings
from redis_locks.observing import Kind, LockEvent
from redis_locks.signals import LOCK_SIGNALS

logger = logging.getLogger("redis_locks")


class Teller:
    """The observer of a Django process. An event is made only if the log or a receiver wants it."""

    def listens(self, kind: Kind) -> bool:
        """Return whether a receiver is connected or the log takes events of this kind."""
        if kind == "waiting":  # for the log only
            return get_settings().log_lock_waits and logger.isEnabledFor(logs.LEVELS[kind])
        return bool(LOCK_SIGNALS[kind].receivers) or logger.isEnabledFor(logs.LEVELS[kind])

    async def tell(self, event: LockEvent, *, task: bool) -> None:
        """Log the event and send its signal. Suspends only if `task`; raises no Exception."""
        try:
            logs.log(event)
            signal = LOCK_SIGNALS.get(event.kind)
            if signal is None:
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
