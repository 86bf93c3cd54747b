"""A team of workers with one job, which lives in the process of the site."""

from __future__ import annotations

import signal
import uuid
from dataclasses import dataclass

from demo_project.bank.crews import Crew
from demo_project.bank.processes import Event
from redis_locks.run_once import RunStatus, run_once

from .worker import MAX_ATTEMPTS

MODULE = "demo_project.bank.failover.worker"
WORKERS = ("1", "2", "3")
JOB_SECONDS = 8.0
SIGNALS = ("kill", "fail")
BUSY = "A team is at work: wait for its end, or kill its workers."
_WORKING = {"acquired", "status"}


@dataclass(frozen=True)
class Member:
    """A worker as the page shows it; `state` is ready, working, waiting, dead or ended."""

    who: str
    pid: int
    state: str
    last: str


class Team(Crew):
    """Three processes that start together and try the same job.

    Args:
        url: The address of the Redis server.
        seconds: How long the job takes.

    Raises:
        ActorFailed: The site ends.
        OSError: The processes cannot be started.
    """

    def __init__(self, url: str, seconds: float = JOB_SECONDS) -> None:
        self._using = url
        name = f"failover:{uuid.uuid4().hex[:8]}"
        super().__init__(name, MODULE, WORKERS, {"url": url, "name": name, "seconds": seconds})

    def workers(self) -> list[Member]:
        """The workers as they are now."""
        events = self.all_events
        return [self._worker(who, [each for each in events if each.who == who]) for who in WORKERS]

    def _worker(self, who: str, said: list[Event]) -> Member:
        kinds = {event.kind for event in said}
        last = next((event for event in reversed(said) if event.text), None)
        if "gone" in kinds:
            state = "ended" if "ended" in kinds else "dead"
        elif last is None:
            state = "ready"
        else:
            state = "working" if last.kind in _WORKING else "waiting"
        return Member(who, self.pid(who), state, last.text if last else "starts")

    def status(self) -> RunStatus:
        """What the server knows of the job; blocks for a round trip.

        Raises:
            LockBackendError: The server could not be asked.
        """
        return run_once(
            self.name, max_attempts=MAX_ATTEMPTS, using=self._using, store_result=True
        ).status()

    def do(self, what: str, who: str) -> None:
        """Kill a worker, or make its attempt fail; `what` is one of `SIGNALS`."""
        if what == "kill":
            self.kill(who)
        else:
            self.signal(who, signal.SIGUSR1)
