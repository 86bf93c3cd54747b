"""Lines in the log, one for each event, for people: logger "redis_locks"."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from redis_locks.protocol.lock_events import Kind, LockEvent
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
    "adopted": "Lock %(name)s adopted (%(mode)s), held for %(held).3f s so far, fencing token %(token)s",
    "released": "Lock %(name)s released after %(held).3f s, fencing token %(token)s",
    "contended": "Lock %(name)s (%(mode)s) is held by %(holder)s",
    "waiting": "%(who)s has been waiting for %(waited).1f s for lock %(name)s (%(mode)s), held by %(holder)s when last asked",
    "timed_out": "Lock %(name)s (%(mode)s) did not become free within %(wait)g s; it is held by %(holder)s",
    "deadlock": "Deadlock: the wait for lock %(name)s was ended so that the others can go on.%(circle)s",
    "unguarded": "Lock %(name)s (%(mode)s) could not be asked for, so its block runs without it: %(reason)s",
    "lost": "Lock %(name)s is lost after %(held).3f s: %(reason)s; fencing token %(token)s",
}


def log(event: LockEvent, **_: object) -> None:
    """Write the event's line; a receiver of the signals. Control characters are escaped."""
    if not logger.isEnabledFor(LEVELS[event.kind]):
        return
    values = {
        "name": repr(event.name),
        "mode": event.mode,
        "who": printable(str(event.who)),
        "wait": event.wait,
        "waited": event.waited,
        "held": event.held,
        "holder": printable(event.holder or "somebody else"),
        "token": event.fencing_token,
        "reason": event.reason,
        "circle": "".join(f"\n  {printable(str(wait))}" for wait in event.circle),
    }
    logger.log(LEVELS[event.kind], _LINES[event.kind], values)
