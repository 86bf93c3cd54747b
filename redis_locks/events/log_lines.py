"""Lines in the log, for people: logger "redis_locks".

One for each event, but for the callers of a crowd.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Mapping
from time import monotonic
from typing import Final

from redis_locks.events.convoys import FOLDED, Convoys, ConvoySummary
from redis_locks.protocol.lock_events import Kind, LockEvent
from redis_locks.values.log_text import Escaped
from redis_locks.values.text import printable

logger = logging.getLogger("redis_locks")

LEVELS: Final[Mapping[Kind, int]] = {
    "acquired": logging.DEBUG,
    "detached": logging.DEBUG,
    "adopted": logging.DEBUG,
    "released": logging.DEBUG,
    "contended": logging.INFO,
    "waiting": logging.WARNING,
    "timed_out": logging.WARNING,
    "deadlock": logging.WARNING,
    "lost": logging.ERROR,
    "unguarded": logging.ERROR,
}

_LINES: Mapping[Kind, str] = {
    "acquired": "Lock %(name)s acquired (%(mode)s) after %(waited).3f s, fencing token %(token)s",
    "detached": "Lock %(name)s detached after %(held).3f s, fencing token %(token)s",
    "adopted": "Lock %(name)s adopted (%(mode)s), held for %(held).3f s so far, fencing token "
    "%(token)s",
    "released": "Lock %(name)s released after %(held).3f s, fencing token %(token)s",
    "contended": "Lock %(name)s (%(mode)s) is held by %(holder)s",
    "waiting": "%(who)s has been waiting for %(waited).1f s for lock %(name)s (%(mode)s), held by "
    "%(holder)s when last asked",
    "timed_out": "Lock %(name)s (%(mode)s) did not become free within %(wait)g s; it is held by "
    "%(holder)s",
    "deadlock": "Deadlock: the wait for lock %(name)s was ended so that the others can go "
    "on.%(circle)s",
    "unguarded": "Lock %(name)s (%(mode)s) could not be asked for, so its block runs without it: "
    "%(reason)s",
    "lost": "Lock %(name)s is lost after %(held).3f s: %(reason)s; fencing token %(token)s",
}


_SUMMARIES: Mapping[Kind, str] = {
    "contended": "%(events)d more callers found %(lock)s held in the last %(age).1f s; %(holder)s "
    "held the lock when last asked",
    "waiting": "%(events)d more waits for %(lock)s have become long; the oldest began %(age).1f s "
    "ago, and %(holder)s "
    "held the lock when last asked",
    "unguarded": "%(events)d more blocks began without their locks in the last %(age).1f s: "
    "%(reason)s",
    "timed_out": "%(events)d more waits for %(lock)s ended without it; the oldest began %(age).1f "
    "s ago, and %(holder)s "
    "held the lock when last asked",
}


def log(event: LockEvent) -> None:
    """Write the event's line, or count it for a later summary. Control characters are escaped."""
    level = LEVELS.get(event.kind)
    if level is None or not logger.isEnabledFor(level):
        return
    if event.kind not in FOLDED or convoys.admits(event):
        _write(event)


def _write(event: LockEvent) -> None:
    values = {
        "name": repr(event.name),
        "mode": event.mode,
        "who": printable(str(event.who)),
        "wait": event.wait,
        "waited": event.waited,
        "held": event.held,
        "holder": _holder(event),
        "token": event.fencing_token,
        "reason": event.reason,
        "circle": Escaped("".join(f"\n  {printable(str(wait))}" for wait in event.circle)),
    }
    # By `lock_event` a handler tells the lines apart; the texts are for people.
    logger.log(LEVELS[event.kind], _LINES[event.kind], values, extra={"lock_event": event.kind})


def _sum_up(summary: ConvoySummary) -> None:
    event = summary.latest
    if summary.events == 1:
        _write(event)
        return
    values = {
        "events": summary.events,
        "lock": "other locks" if summary.is_rest else f"lock {event.name!r}",
        "age": monotonic() - summary.began,
        "holder": _holder(event),
        "reason": event.reason,
    }
    logger.log(LEVELS[event.kind], _SUMMARIES[event.kind], values)


def _holder(event: LockEvent) -> str:
    return printable(event.holder or "somebody else")


convoys: Final = Convoys(_sum_up)
"""Those of this process."""

os.register_at_fork(after_in_child=convoys.reset)
atexit.register(convoys.flush)
