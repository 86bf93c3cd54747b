"""Count in memory, and send it from a thread of its own: no lock ever waits for the statistics.

What was counted is sent once. If that fails, or the process is killed, it is gone: figures may
be too low by what the last seconds brought, but nothing is counted twice.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable
from time import monotonic

from redis_locks.conf.settings import get_settings
from redis_locks.drivers.base import run_blocking
from redis_locks.protocol.lock_events import Kind, LockEvent
from redis_locks.statistics import storage
from redis_locks.statistics.counting import Note, Tally
from redis_locks.statistics.histogram import bucket_of

logger = logging.getLogger("redis_locks")

INTERVAL = 5.0
"""Seconds between two times that a process sends what it has counted."""

BATCH = 256
"""How much may have happened before it is counted: all at once takes half the time of one by one."""

_NOT_COUNTED = frozenset({"waiting", "detached", "adopted"})

LAST_CHANCE = 1.0
"""Seconds that the end of a process waits for that, at most."""


class Flusher:
    """The tallies of this process, by server, and the thread that sends them while there are any."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start empty: after a fork, what was counted is the parent's to send, as is the thread."""
        # Re-entrant: a finalizer or a signal handler may release a lock in the middle of this.
        self._guard = threading.RLock()
        self.pending: deque[tuple[str, Kind, tuple[str, ...], float]] = deque()
        self._alike: dict[tuple[str, Kind, tuple[str, ...], int | None], int] = {}
        """How often what was pending has happened; kept, should an interrupt come before that is counted."""
        self.most = 1
        """How much may be pending: at first nothing, for somebody has to start the thread."""
        self.full: set[tuple[str, str]] = set()
        """The servers and names of which there are as many notes of the frequent kinds as are kept."""
        self._tallies: dict[str, Tally] = {}
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def listens(self, kind: Kind) -> bool:
        """Return whether events of this kind are counted. A hold that moves is one hold."""
        return kind not in _NOT_COUNTED and get_settings().statistics

    def take(self, event: LockEvent) -> None:
        """Note an event for the pages of its locks. Does not block."""
        if event.kind != "released":
            seconds = event.held or event.waited
            detail = event.holder or event.reason
            note = Note(monotonic(), event.kind, event.who, seconds, event.fencing_token, detail)
            self.note(event.server, event.names, note)

    def catch_up(self) -> None:
        """Count what is pending. Does not block."""
        pending, alike = self.pending, self._alike
        with self._guard:
            # Neither is asked before whether it is empty: a signal's handler may empty it in between.
            while True:
                try:
                    server, kind, names, seconds = pending.popleft()
                except IndexError:
                    break
                event = server, kind, names, bucket_of(seconds) if seconds else None
                alike[event] = alike.get(event, 0) + 1
            while True:
                try:
                    (server, kind, names, bucket), times = alike.popitem()
                except KeyError:
                    return
                self._tally(server).count(kind, names, bucket, times)

    def note(self, server: str, names: Iterable[str], note: Note) -> None:
        """Note what has happened to locks, to be sent some seconds later. Does not block."""
        with self._guard:
            tally = self._tally(server)
            for name in names:
                if tally.note(name, note):
                    self.full.add((server, name))

    def _tally(self, server: str) -> Tally:
        tally = self._tallies.get(server)
        if tally is None:
            tally = self._tallies[server] = Tally()
        if self._thread is None:
            self._start()
        return tally

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="redis_locks-statistics", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had, or the process ends
            return
        self._thread, self.most = thread, BATCH

    def _run(self) -> None:
        while True:
            self._ending.wait(INTERVAL)
            self.flush()
            with self._guard:
                # In this order: whoever still saw a thread has appended before that.
                self._thread, self.most = None, 1
                if not (self.pending or self._tallies):
                    return
                self._thread, self.most = threading.current_thread(), BATCH

    def flush(self) -> None:
        """Send what was counted, now; blocks. What cannot be sent is forgotten."""
        with self._guard:
            self.catch_up()
            tallies, self._tallies = self._tallies, {}
            self.full.clear()
        for server, tally in tallies.items():
            # Not above: most processes import this at their start and send nothing for seconds.
            from redis_locks.connections import backends

            backend = backends.described(server)
            if backend is None:  # the settings have changed meanwhile
                continue
            try:
                run_blocking(storage.add(backend, tally))
            except Exception:  # whatever is wrong, those who use the locks are told by them
                logger.debug("The statistics of %s could not be sent", server, exc_info=True)

    def end(self) -> None:
        """Send what was counted, at the end of the process; blocks for `LAST_CHANCE` at most."""
        with self._guard:
            thread = self._thread
        if thread is not None:
            self._ending.set()
            thread.join(LAST_CHANCE)


flusher = Flusher()
os.register_at_fork(after_in_child=flusher.reset)
atexit.register(flusher.end)
