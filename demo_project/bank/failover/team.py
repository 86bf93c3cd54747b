"""A team of workers with one job, which lives in the process of the site."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass

from demo_project.bank.processes import Actor, Event
from redis_locks.run_once import RunStatus, run_once

from .worker import MAX_ATTEMPTS

MODULE = "demo_project.bank.failover.worker"
WORKERS = ("1", "2", "3")
JOB_SECONDS = 8.0
START_SECONDS = 30.0
"""After so long, the workers that have started begin without the others."""
SIGNALS = {"kill": signal.SIGKILL, "fail": signal.SIGUSR1}
REMEMBERED = 10
"""How many teams the site remembers."""
_WORKING = {"acquired", "status"}


class TeamAtWork(Exception):
    """Another team is at work: end it first."""


@dataclass(frozen=True)
class Member:
    """A worker as the page shows it; `state` is ready, working, waiting, dead or ended."""

    who: str
    pid: int
    state: str
    last: str


class Team:
    """Three processes that start together and try the same job.

    Args:
        url: The address of the Redis server.
        seconds: How long the job takes.

    Raises:
        ActorFailed: The site ends.
        OSError: The processes cannot be started.
    """

    def __init__(self, url: str, seconds: float = JOB_SECONDS) -> None:
        self.name = f"failover:{uuid.uuid4().hex[:8]}"
        self._using = url
        self._events: list[Event] = []
        self._heard = threading.Condition()
        self._started = time.monotonic()
        order = {"url": url, "name": self.name, "seconds": seconds}
        with ExitStack() as stack:
            self._actors = {who: stack.enter_context(Actor(who, MODULE, order)) for who in WORKERS}
            # From now on, the thread ends them.
            processes = stack.pop_all()
        threading.Thread(target=self._work, args=(processes,), name="team", daemon=True).start()

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
                    lambda: all(self._has(who, "ready", "gone") for who in WORKERS), START_SECONDS
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
        """Whether a worker has not ended."""
        with self._heard:
            return not all(self._has(who, "gone") for who in WORKERS)

    def events(self) -> list[Event]:
        """What the workers said, with seconds since they began."""
        with self._heard:
            return [
                Event(
                    round(max(0.0, event.at - self._started), 2), event.who, event.kind, event.text
                )
                for event in self._events
                if event.text
            ]

    def members(self) -> list[Member]:
        """The workers as they are now."""
        return [self._member(who) for who in WORKERS]

    def _member(self, who: str) -> Member:
        with self._heard:
            said = [event for event in self._events if event.who == who]
        kinds = {event.kind for event in said}
        last = next((event for event in reversed(said) if event.text), None)
        if "gone" in kinds:
            state = "ended" if "ended" in kinds else "dead"
        elif last is None:
            state = "ready"
        else:
            state = "working" if last.kind in _WORKING else "waiting"
        return Member(who, self._actors[who].pid, state, last.text if last else "starts")

    def status(self) -> RunStatus:
        """What the server knows of the job; blocks for a round trip.

        Raises:
            LockBackendError: The server could not be asked.
        """
        return run_once(
            self.name, max_attempts=MAX_ATTEMPTS, using=self._using, store_result=True
        ).status()

    def do(self, what: str, who: str) -> None:
        """Kill a worker, or make its attempt fail; `what` is a key of `SIGNALS`."""
        if what == "kill":
            self._hear(Event(time.monotonic(), who, "killed", "is killed"))
        self._actors[who].signal(SIGNALS[what])

    def end(self) -> None:
        """Kill all workers."""
        for who in WORKERS:
            if not self._has(who, "gone"):
                self.do("kill", who)


class Teams:
    """The teams of this site, of which one may be at work."""

    def __init__(self) -> None:
        self._teams: dict[str, Team] = {}
        self._lock = threading.Lock()

    def start(self, url: str, seconds: float = JOB_SECONDS) -> Team:
        """Start a team.

        Raises:
            TeamAtWork: There is one at work.
        """
        with self._lock:
            if any(team.is_at_work for team in self._teams.values()):
                raise TeamAtWork("A team is at work: wait for its end, or kill its workers.")
            for old in list(self._teams)[: 1 - REMEMBERED]:
                del self._teams[old]
            team = Team(url, seconds)
            self._teams[team.name] = team
            return team

    def find(self, name: str) -> Team | None:
        """The team of that name, or None if the site does not know it."""
        return self._teams.get(name)
