"""Take what is told of locks into the statistics, if they are on."""

from __future__ import annotations

from time import monotonic

from redis_locks import telling
from redis_locks.claims import parse_who
from redis_locks.conf import get_settings
from redis_locks.identity import whoami
from redis_locks.observing import Kind, LockEvent
from redis_locks.statistics.counting import Note
from redis_locks.statistics.flushing import flusher

_NOT_COUNTED = frozenset({"waiting", "detached", "adopted"})


class Recorder:
    """Counts each event."""

    def listens(self, kind: Kind) -> bool:
        """Return whether events of this kind are counted. A hold that moves is one hold."""
        return kind not in _NOT_COUNTED and get_settings().statistics

    count = staticmethod(flusher.count)

    def take(self, event: LockEvent) -> None:
        """Note an event for the pages of its locks. Does not block."""
        if event.kind != "released":
            seconds = event.held or event.waited
            detail = event.holder or event.reason
            note = Note(monotonic(), event.kind, event.who, seconds, event.fencing_token, detail)
            flusher.note(event.server, event.names, note)


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


_recorder = Recorder()


def start() -> None:
    """Have what is told in this process counted, from the first call on."""
    if _recorder not in telling.sinks:
        telling.sinks.append(_recorder)
