"""Two processes want one account, and something goes wrong.

The experiment shows who holds the lock, who knows that, and what becomes of the money.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import redis
from django.conf import settings

from demo_project.bank.accounts import account_key
from demo_project.bank.background import at_once
from demo_project.bank.processes import Actor, ActorFailed, Event
from demo_project.bank.proxy import Proxy, proxy_for

from .actor import LEASE, MONEY, NOTES, PAID, Job

ACTOR = "demo_project.bank.problems.actor"
OPENING, FIRST, SECOND = 10_000, 8_000, 5_000
"""What the account has, and what each of the two wants, in cents: it is not enough for both."""
LOCKS = {"book": "The book's lock", "redis_lock": "redis_lock"}
LONGEST_SECONDS = 40.0
CLOCK_READINGS = 5


@dataclass(frozen=True)
class Problem:
    """Something that can go wrong, as the page explains it."""

    name: str
    title: str
    text: str
    work_seconds: float = 0.5


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "freeze",
            "Freeze the holder",
            "The holder stands still until its lease has ended and somebody else has the lock. "
            "Then it goes on.",
        ),
        Problem(
            "lease",
            "Let the lease end",
            f"The holder is well, but works for longer than the lease of {LEASE}\u00a0s.",
            work_seconds=LEASE + 1.5,
        ),
        Problem("kill", "Kill the holder", "The holder dies, and its lock is left behind."),
        Problem("cut", "Cut the connection", "The holder's connections break while it works."),
        Problem(
            "reply",
            "Lose a reply",
            "The server writes, but its reply is lost: the holder does not know whether the money "
            "was moved.",
        ),
    )
}


@dataclass(frozen=True)
class Course:
    """What happened with one of the locks, and what the account shows, in cents."""

    lock: str
    events: tuple[Event, ...]
    money: int
    paid: int

    @property
    def is_right(self) -> bool:
        """Whether the account was not overdrawn, and no money was made up or lost."""
        return self.money >= 0 and self.money + self.paid == OPENING


def run_problem(conn: redis.Redis, name: str) -> list[Course]:
    """Let the problem happen to both locks at the same time; blocks for some seconds.

    Raises:
        ActorFailed: A process of the experiment did not do what it should.
        redis.RedisError: The server could not be asked.
    """
    runs = at_once([partial(_run, conn, PROBLEMS[name], lock) for lock in LOCKS])
    wait(runs)
    return [run.result() for run in runs]


def _run(conn: redis.Redis, problem: Problem, lock: str) -> Course:
    account = account_key(f"problem-{uuid.uuid4().hex[:8]}")
    conn.hset(account, mapping={MONEY: OPENING, PAID: 0})
    try:
        with ExitStack() as stack:
            proxy, url = stack.enter_context(proxy_for(settings.REDIS_URL))
            if problem.name == "reply":
                proxy.lose_replies(b"HINCRBY")
            first, second = (
                stack.enter_context(
                    Actor(who, ACTOR, asdict(Job(who, lock, url, account, cents, seconds)))
                )
                for who, cents, seconds in (("A", FIRST, problem.work_seconds), ("B", SECOND, 0.3))
            )
            clock = ServerClock(conn)
            said = _Stage(first, second, proxy, problem.name).play()
        wrote = list(_withdrawals(conn, account, lock, clock, lost=proxy.lost > 0))
        money, paid = (int(value or 0) for value in conn.hmget(account, [MONEY, PAID]))
    finally:
        conn.delete(account, account + NOTES)
    began = next(event.at for event in said if event.kind == "asks")
    events = [
        Event(round(event.at - began, 3), event.who, event.kind, event.text)
        for event in sorted([*said, *wrote], key=lambda event: event.at)
        if event.kind != "ready"
    ]
    return Course(lock, tuple(events), money, paid)


class ServerClock:
    """Translates the server's clock to this machine's monotonic one, a trifle early and never late.

    So what the server did before it let somebody in is never drawn after that.
    """

    def __init__(self, conn: redis.Redis) -> None:
        offsets = []
        for _ in range(CLOCK_READINGS):
            asked = time.monotonic()
            seconds, microseconds = conn.time()
            offsets.append(asked - seconds - microseconds / 1_000_000)
        # The greatest one had the shortest way to the server.
        self._offset = max(offsets)

    def moment(self, stream_id: bytes | str) -> float:
        """When the server made this entry of a stream, by `time.monotonic`."""
        text = stream_id.decode() if isinstance(stream_id, bytes) else stream_id
        return int(text.partition("-")[0]) / 1000 + self._offset


def _withdrawals(
    conn: redis.Redis, account: str, lock: str, clock: ServerClock, *, lost: bool
) -> Iterator[Event]:
    """Yield what the server did, at its own moments; `lost` adds that A's reply was lost."""
    releases = ", and releases the lock" if lock == "redis_lock" else ""
    noted: Any = conn.xrange(account + NOTES)
    for stream_id, words in noted:
        at = clock.moment(stream_id)
        who = next(value.decode() for value in words.values())
        cents = {"A": FIRST, "B": SECOND}[who]
        yield Event(at, who, "wrote", f"withdraws {cents / 100:.2f}{releases}")
        if releases:
            yield Event(at, who, "released", "")
        if lost and who == "A":
            yield Event(at, who, "lost", "gets no reply: it is lost on its way")


class _Stage:
    """Lets both processes start, and causes the problem when the first one has read the account."""

    def __init__(self, first: Actor, second: Actor, proxy: Proxy, problem: str) -> None:
        self._first, self._second = first, second
        self._proxy = proxy
        self._problem = problem
        self._heard: queue.Queue[Event] = queue.Queue()
        self._events: list[Event] = []

    def play(self) -> list[Event]:
        for actor in (self._first, self._second):
            threading.Thread(target=actor.listen, args=(self._heard.put,), daemon=True).start()
        self._wait_for("A", "ready")
        self._wait_for("B", "ready")
        self._first.tell()
        self._wait_for("A", "read")
        self._strike()
        self._second.tell()
        if self._problem == "freeze":
            self._wait_for("B", "gone")
            # Noted first: A may say what it does next before this thread goes on.
            self._note("thawed", "goes on")
            self._first.signal(signal.SIGCONT)
        for who in "AB":
            self._wait_for(who, "gone")
        return self._events

    def _strike(self) -> None:
        if self._problem == "freeze":
            self._first.signal(signal.SIGSTOP)
            self._note("frozen", "is frozen")
        elif self._problem == "kill":
            self._first.signal(signal.SIGKILL)
            self._note("killed", "is killed")
        elif self._problem == "cut":
            self._proxy.cut()
            self._note("cut", "loses its connections")

    def _note(self, kind: str, text: str) -> None:
        self._events.append(Event(time.monotonic(), "A", kind, text))

    def _wait_for(self, who: str, kind: str) -> None:
        """Block until the process has said so, or has ended."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while not any(event.who == who and event.kind in (kind, "gone") for event in self._events):
            try:
                self._events.append(self._heard.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                raise ActorFailed(f"Process {who} did not get to {kind!r} in time.") from None
        if kind != "gone" and not any(e.who == who and e.kind == kind for e in self._events):
            raise ActorFailed(f"Process {who} ended before it got to {kind!r}.")
