"""Have what is told of locks taken into the statistics, if they are on."""

from __future__ import annotations

from time import monotonic

from redis_locks.conf.settings import get_settings
from redis_locks.events import dispatch
from redis_locks.statistics.counting import Note
from redis_locks.statistics.flushing import flusher
from redis_locks.values.claims import parse_who
from redis_locks.values.identity import whoami


def note_ended(server: str, name: str, kind: str, *, task: bool) -> None:
    """Note that this thread, or the running task, ended a hold or a wait of somebody else.

    Args:
        server: The description of the server.
        name: The lock.
        kind: "force_released" or "cancelled".
        task: Whether to note the running task, if there is one.
    """
    if get_settings().statistics:
        note = Note(monotonic(), kind, parse_who(whoami(None, task=task)))
        flusher.note(server, [name], note)


def start() -> None:
    """Have what is told in this process counted, from the first call on."""
    dispatch.teller.statistics = flusher
