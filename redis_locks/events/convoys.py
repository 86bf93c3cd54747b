"""Fold the log lines of many callers that find the same lock held.

Each interval has one summary.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from redis_locks.protocol.lock_events import Kind, LockEvent

INTERVAL: Final = 10.0
"""Seconds that one line about the callers of a lock stands for."""

MOST_LOCKS: Final = 1000
"""How many locks are told apart, for each kind. Events of further ones are counted together."""

_MOST: Final[dict[Kind, int]] = {"unguarded": 10}
"""In place of `MOST_LOCKS`: while the server is away, which lock it is says little."""

FOLDED: Final[frozenset[Kind]] = frozenset({"contended", "waiting", "timed_out", "unguarded"})
"""The kinds that each waiter of a crowd tells, or each block while the server is away."""

_Key = tuple[str, tuple[str, ...]]
"""The server and the locks; without locks for all those beyond `MOST_LOCKS`."""


@dataclass(slots=True)
class ConvoySummary:
    """What happened to the callers of a lock since the last line about them.

    Attributes:
        events: How many there were.
        oldest: The event of the caller that came first.
        began: When that one came, on the monotonic clock.
        latest: The event that came last: it names today's holder.
        is_rest: Whether they are about several locks.
    """

    events: int
    oldest: LockEvent
    began: float
    latest: LockEvent
    is_rest: bool


@dataclass(slots=True)
class _Convoy:
    ends: float
    """When the next line may be written, on the monotonic clock."""
    summary: ConvoySummary | None = None


class Convoys:
    """The locks of which this process has written a line within `INTERVAL`.

    Threads may use it at once.

    The first event of a lock gets a line of its own. Later ones are counted, and a thread, which
    lives only for this, passes one `ConvoySummary` to `write` when the interval ends.
    """

    def __init__(self, write: Callable[[ConvoySummary], None], interval: float = INTERVAL) -> None:
        self._write = write
        self.interval = interval
        self.reset()

    def reset(self) -> None:
        """Start empty. After a fork, the parent has the thread and writes what it has counted."""
        # Re-entrant: a finalizer or a signal handler may log while its thread has the guard.
        self._guard = threading.RLock()
        # Each kind by itself, so that events of one do not take the places of another's.
        self._convoys: dict[Kind, dict[_Key, _Convoy]] = {kind: {} for kind in FOLDED}
        self._drops_at = 0.0
        self._timer: threading.Timer | None = None

    def admits(self, event: LockEvent) -> bool:
        """Return whether to write a line of its own for `event`, which is counted otherwise.

        Does not block.
        """
        now = monotonic()
        key: _Key = event.server, event.names
        most = _MOST.get(event.kind, MOST_LOCKS)
        with self._guard:
            convoys = self._convoys[event.kind]
            if key not in convoys and len(convoys) >= most and now >= self._drops_at:
                self._drop_ended(now)
            if key not in convoys and len(convoys) >= most:
                key = event.server, ()
            convoy = convoys.get(key)
            if convoy is None or (convoy.summary is None and convoy.ends <= now):
                convoys[key] = _Convoy(now + self.interval)
                return True
            self._count(convoy, event, now, is_rest=not key[1])
            if self._timer is None:
                self._start(max(0.0, convoy.ends - now))
            return False

    def _count(self, convoy: _Convoy, event: LockEvent, now: float, *, is_rest: bool) -> None:
        began, summary = now - event.waited, convoy.summary
        if summary is None:
            convoy.summary = ConvoySummary(1, event, began, event, is_rest)
            return
        summary.events += 1
        summary.latest = event
        if began < summary.began:
            summary.began, summary.oldest = began, event

    def _drop_ended(self, now: float) -> None:
        # It goes through all of them, so not for each event.
        self._drops_at = now + self.interval / 10
        for convoys in self._convoys.values():
            for key, convoy in list(convoys.items()):
                if convoy.summary is None and convoy.ends <= now:
                    del convoys[key]

    def _all(self) -> list[_Convoy]:
        return [convoy for convoys in self._convoys.values() for convoy in convoys.values()]

    def _start(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self._tick)
        timer.name, timer.daemon = "redis_locks-log", True
        try:
            timer.start()
        except RuntimeError:  # no more threads can start, or the process ends: `flush` writes it
            return
        self._timer = timer

    def _tick(self) -> None:
        with self._guard:
            self._timer = None
            due = self._due(monotonic())
            ends = [each.ends for each in self._all() if each.summary is not None]
            if ends:
                self._start(max(0.0, min(ends) - monotonic()))
        for summary in due:
            self._write(summary)

    def _due(self, now: float) -> list[ConvoySummary]:
        """Take the summaries whose interval is over, and begin their next one."""
        due = []
        for convoy in self._all():
            if convoy.summary is not None and convoy.ends <= now:
                due.append(convoy.summary)
                convoy.summary, convoy.ends = None, now + self.interval
        return due

    def flush(self) -> None:
        """Write all summaries now."""
        with self._guard:
            due = self._due(float("inf"))
            for convoys in self._convoys.values():
                convoys.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for summary in due:
            self._write(summary)
