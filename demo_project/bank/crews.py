"""Crews: processes that start together and live in the site's process, and what they said."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from .processes import Actor, Busy, Event

START_SECONDS = 30.0
"""After so long, the members that have started begin without the others."""
REMEMBERED = 10
"""How many crews of a kind the site remembers."""


class Crew:
    """Processes that start together and say what they do.

    Args:
        name: Names the crew, and what it works on.
        module: What each process runs.
        members: Who they are.
        order: What all of them are to do; each one learns who it is as ``who``.

    Raises:
        ActorFailed: The site ends.
        OSError: The processes cannot be started.
    """

    def __init__(
        self, name: str, module: str, members: Sequence[str], order: Mapping[str, Any]
    ) -> None:
        self.name = name
        self.members = tuple(members)
        self._events: list[Event] = []
        self._heard = threading.Condition()
        self._started = time.monotonic()
        with ExitStack() as stack:
            self._actors = {
                who: stack.enter_context(Actor(who, module, {**order, "who": who}))
                for who in members
            }
            # From now on, the thread ends them.
            processes = stack.pop_all()
        threading.Thread(target=self._work, args=(processes,), name="crew", daemon=True).start()

    def _work(self, processes: ExitStack) -> None:
        with processes:
            listeners = [
                threading.Thread(target=actor.listen, args=(self._hear,), daemon=True)
                for actor in self._actors.values()
            ]
            for listener in listeners:
                listener.start()
            with self._heard:
                self._heard.wait_for(
                    lambda: all(self._has(who, "ready", "gone") for who in self.members),
                    START_SECONDS,
                )
            self._started = time.monotonic()
            for actor in self._actors.values():
                actor.tell()
            for listener in listeners:
                listener.join()

    def _hear(self, event: Event) -> None:
        with self._heard:
            self._events.append(event)
            self._heard.notify_all()

    def _has(self, who: str, *kinds: str) -> bool:
        return any(event.who == who and event.kind in kinds for event in self._events)

    @property
    def is_at_work(self) -> bool:
        """Whether a member has not ended."""
        with self._heard:
            return not all(self._has(who, "gone") for who in self.members)

    @property
    def all_events(self) -> list[Event]:
        """All that was said and done, also what has no text, by `time.monotonic`."""
        with self._heard:
            return list(self._events)

    def events(self) -> list[Event]:
        """What the members said, with seconds since they began."""
        return [
            Event(round(max(0.0, event.at - self._started), 2), event.who, event.kind, event.text)
            for event in self.all_events
            if event.text
        ]

    def pid(self, who: str) -> int:
        """The process of a member."""
        return self._actors[who].pid

    def kill(self, who: str) -> None:
        """Kill a member's process by SIGKILL, if it has not ended."""
        self.signal(who, signal.SIGKILL, "killed", "is killed")

    def signal(self, who: str, number: signal.Signals, kind: str = "", text: str = "") -> None:
        """Send a member's process a signal, and note it as an event of this kind, if any."""
        if self._has(who, "gone"):
            return
        if kind:
            self._hear(Event(time.monotonic(), who, kind, text))
        self._actors[who].signal(number)

    def end(self) -> None:
        """Kill all members."""
        for who in self.members:
            self.kill(who)


C = TypeVar("C", bound=Crew)


class Crews(Generic[C]):
    """The crews of one kind on this site, of which one may be at work."""

    def __init__(self, busy: str) -> None:
        self._busy = busy
        self._crews: dict[str, C] = {}
        self._lock = threading.Lock()

    def start(self, make: Callable[[], C]) -> C:
        """Start a crew.

        Raises:
            Busy: There is one at work.
        """
        with self._lock:
            if any(crew.is_at_work for crew in self._crews.values()):
                raise Busy(self._busy)
            for old in list(self._crews)[: 1 - REMEMBERED]:
                del self._crews[old]
            crew = make()
            self._crews[crew.name] = crew
            return crew

    def find(self, name: str) -> C | None:
        """The crew of that name, or None if the site does not know it."""
        return self._crews.get(name)
