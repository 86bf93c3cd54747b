"""A branch of the bank: five tellers, a line of customers, and permits for some tellers at once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import redis

from demo_project.bank.crews import Crew
from demo_project.bank.processes import Event
from redis_locks import inspection
from redis_locks.inspection import LockInfo

from .teller import Job

MODULE = "demo_project.bank.tellers.teller"
TELLERS = ("Ann", "Ben", "Cleo", "Dan", "Eve")
PERMITS = 3
"""How many tellers may serve at once, at first."""
CUSTOMERS = 60
MORE = 30
"""How many more customers come at once."""
SERVE_SECONDS = 1.0
MOST_CUSTOMERS = 500
MEMORY_SECONDS = 3600
SHOWN_SECONDS = 30
"""How much of the past the strips show."""
BUSY = "A branch is open: wait until its customers are served, or let all tellers crash."
_FAR = 36_000


@dataclass(frozen=True)
class Stretch:
    """A time for which a teller had a permit, in seconds from its strip's left edge; SVG text."""

    x: str
    width: str
    crashed: bool


@dataclass(frozen=True)
class Teller:
    """A teller as the page shows it.

    Attributes:
        who: Its name.
        state: serving, waiting, idle, crashed or home.
        place: Its place in the queue for a permit; 0 if it does not wait.
        customer: Whom it serves.
        since: Since when it has its permit, in seconds since 1970.
        ends: When the permit of a crashed teller is free again; empty otherwise.
        served: How many customers it has served.
    """

    who: str
    state: str
    place: int
    customer: str
    since: str
    ends: str
    served: int


@dataclass(frozen=True)
class Look:
    """The branch at one moment: what the semaphore's server says, and what the processes said."""

    tellers: tuple[Teller, ...]
    permits: int
    taken: int
    waiting: int
    in_line: int
    served: int
    most_at_once: int
    most_permits: int

    @property
    def is_right(self) -> bool:
        """Whether there were never more tellers at work than permits."""
        return self.most_at_once <= self.most_permits


class Branch(Crew):
    """A branch that is open until its customers are served, or its tellers have crashed.

    Args:
        conn: Client of the server.
        url: The address of the server, for the tellers.
        customers: How many wait at first.
        seconds: How long each of them is served.

    Raises:
        ActorFailed: The site ends.
        OSError: The processes cannot be started.
        redis.RedisError: The server could not be asked.
    """

    def __init__(
        self,
        conn: redis.Redis,
        url: str,
        customers: int = CUSTOMERS,
        seconds: float = SERVE_SECONDS,
    ) -> None:
        self._conn = conn
        self._job = Job(url, f"tellers:{uuid.uuid4().hex[:8]}", seconds)
        self._came = 0
        self._free_at: dict[str, float] = {}
        """When the permit of a crashed teller is free again, by this process's clock."""
        self.most_permits = 0
        self.set_permits(PERMITS)
        self.let_in(customers)
        super().__init__(self._job.name, MODULE, TELLERS, asdict(self._job))

    def set_permits(self, permits: int) -> None:
        """Say how many tellers may serve at once; those who serve are not interrupted."""
        self._conn.set(self._job.permits, permits, ex=MEMORY_SECONDS)
        self.most_permits = max(self.most_permits, permits)

    def let_in(self, customers: int) -> None:
        """Let so many more customers come, up to `MOST_CUSTOMERS` in all."""
        coming = range(self._came + 1, min(self._came + customers, MOST_CUSTOMERS) + 1)
        if coming:
            self._conn.rpush(self._job.line, *coming)
            self._conn.expire(self._job.line, MEMORY_SECONDS)
            self._conn.expire(self._job.served, MEMORY_SECONDS)
            self._came = coming[-1]

    def _hear(self, event: Event) -> None:
        if event.kind == "gone":
            desk = replace(self._job, who=event.who).desk
            with suppress(redis.RedisError):
                # A customer whose teller has crashed is the next one.
                self._conn.lmove(desk, self._job.line, "LEFT", "LEFT")
        super()._hear(event)

    def look(self) -> Look:
        """Return what goes on; blocks for two round trips.

        Raises:
            LockBackendError: The locks' server could not be asked.
            redis.RedisError: The bank's server could not be asked.
        """
        lock = inspection.lock(self.name)
        with self._conn.pipeline(transaction=True) as pipe:
            pipe.get(self._job.permits)
            pipe.llen(self._job.line)
            pipe.llen(self._job.served)
            for who in TELLERS:
                pipe.lindex(replace(self._job, who=who).desk, 0)
            permits, in_line, served, *desks = pipe.execute()
        events = self.all_events
        tellers = tuple(
            self._teller(who, desk, lock, [event for event in events if event.who == who])
            for who, desk in zip(TELLERS, desks, strict=True)
        )
        return Look(
            tellers,
            int(permits or 0),
            lock.holding if lock else 0,
            lock.waiting if lock else 0,
            in_line,
            served,
            most_at_once(events),
            self.most_permits,
        )

    def _teller(
        self, who: str, desk: bytes | None, lock: LockInfo | None, said: list[Event]
    ) -> Teller:
        kinds = {event.kind for event in said}
        pid = self.pid(who)
        holder = next((each for each in lock.holders if each.pid == pid), None) if lock else None
        places = [each.pid for each in lock.waiters] if lock else []
        place = places.index(pid) + 1 if pid in places else 0
        crashed = "killed" in kinds
        if crashed:
            state = "crashed"
            if holder:
                self._free_at[who] = time.monotonic() + holder.lease_left
        elif "gone" in kinds or "ended" in kinds:
            state = "home"
        else:
            state = "serving" if holder else "waiting" if place else "idle"
        return Teller(
            who,
            state,
            0 if crashed else place,
            desk.decode() if desk and state == "serving" else "",
            f"{lock.at - holder.held_for:.1f}" if lock and holder and not crashed else "",
            f"{lock.at + holder.lease_left:.1f}" if lock and holder and crashed else "",
            sum(event.kind == "served" for event in said),
        )

    def strips(self) -> dict[str, list[Stretch]]:
        """Return when each teller lately had a permit; a crashed one's until it is free again."""
        events = self.all_events
        now = time.monotonic() if self.is_at_work else max(event.at for event in events)
        began = now - SHOWN_SECONDS
        strips: dict[str, list[Stretch]] = {who: [] for who in TELLERS}
        for who, start, end, crashed in stretches(events):
            if crashed and end is not None:
                end = max(end, self._free_at.get(who, end))  # noqa: PLW2901 - it had the permit until then
            if end is None or end > began:
                width = _FAR if end is None else end - start
                strips[who].append(Stretch(f"{start - began:.2f}", f"{width:.2f}", crashed))
        return strips


def stretches(events: Iterable[Event]) -> Iterator[tuple[str, float, float | None, bool]]:
    """Yield who had a permit, from when, until when (None: still), and whether it crashed then.

    A permit counts from when the teller heard of it until the teller gave it back. What a teller
    said last may be heard after the news that it was killed.
    """
    since: dict[str, float] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.kind == "holds":
            since[event.who] = event.at
        elif event.kind in {"released", "killed", "gone"} and event.who in since:
            yield event.who, since.pop(event.who), event.at, event.kind != "released"
    for who, start in since.items():
        yield who, start, None, False


def most_at_once(events: Iterable[Event]) -> int:
    """Return how many tellers were at work at once, at most."""
    steps = []
    for _, start, end, _ in stretches(events):
        steps.append((start, 1))
        if end is not None:
            steps.append((end, -1))
    most = count = 0
    for _, step in sorted(steps):
        count += step
        most = max(most, count)
    return most
