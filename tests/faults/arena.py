"""Worker processes, the server they lock on, and the account that they protect, for one run of one scenario."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from redis_locks.testing.server import EmbeddedServer
from tests.contract.world import keys_of, until
from tests.faults import bank_worker, subjects
from tests.faults.clock import Clock, server_with_a_clock
from tests.faults.counts import Counts, Diary, count_falling, count_overlaps
from tests.faults.ledger import Ledger, new_account
from tests.faults.proxy import Proxy
from tests.faults.sentinels import Watched
from tests.forking import processes

if TYPE_CHECKING:
    from tests.faults.scenarios import Scenario

NAME = "account"
RECOVERY = 10.0
"""Seconds that a worker may take to hold again when the fault is over; the promises say two and a lease."""
START = 30.0


class Process:
    """One worker: its process and what it wrote down."""

    def __init__(self, orders: dict[str, object], log: Path) -> None:
        self.diary = Diary(log)
        self._process = processes.Process(target=bank_worker.work, args=(orders,), daemon=True)
        self._process.start()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def pause(self) -> None:
        """Stop the process; returns once it stands still."""
        self._send(signal.SIGSTOP)
        until(lambda: _state(self._process.pid).startswith("T"))

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.diary.killed_at = time.monotonic()

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def close(self, within: float) -> None:
        """Wait until the process has ended; kill it after `within` seconds."""
        self._process.join(within)
        if self._process.is_alive():
            self.kill()

    def _send(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


def _state(pid: int | None) -> str:
    """Return the state of a process as `ps` writes it."""
    stat = Path("/proc", str(pid), "stat")
    if stat.exists():
        return stat.read_text().rpartition(")")[2].strip()
    command = ["/bin/ps", "-o", "stat=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Arena:
    """The stage of one scenario. Everything is started on entry and gone on exit."""

    def __init__(self, scenario: Scenario, subject: str) -> None:
        self._scenario = scenario
        self._subject = subject
        self._resources = contextlib.ExitStack()
        self.workers: list[Process] = []
        self.chance = random.Random(scenario.key)
        self.clock: Clock | None = None

    def __enter__(self) -> Self:
        with self._resources:
            scenario = self._scenario
            self.server: EmbeddedServer | Watched
            if scenario.is_watched:
                self.server = self.watched = self._resources.enter_context(Watched())
            elif scenario.sets_the_clock:
                self.server, self.clock = self._resources.enter_context(
                    server_with_a_clock(scenario.options)
                )
            else:
                self.server = self._resources.enter_context(
                    EmbeddedServer(scenario.options, use_environment=False)
                )
            self.control = self._resources.enter_context(self.server.client(socket_timeout=5))
            # Whatever it is for, it stands in front of a server: of Sentinels there are several.
            if not scenario.is_watched:
                self.proxy = self._resources.enter_context(Proxy(self.server.url))
            self._bank = self._resources.enter_context(EmbeddedServer(use_environment=False))
            self._bank_client = self._resources.enter_context(self._bank.client())
            self._account = new_account()
            self._folder = Path(
                self._resources.enter_context(
                    tempfile.TemporaryDirectory(prefix="rl-faults-", dir="/tmp")
                )
            )
            self._resources.callback(self._end_workers)
            self.hire(scenario.workers)
            self._resources = self._resources.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._resources.close()

    def hire(self, count: int) -> None:
        """Start so many workers; return when each has held the lock."""
        started = time.monotonic()
        hired = [self._process(len(self.workers) + number) for number in range(count)]
        self.workers += hired
        until(lambda: all(worker.diary.held_since(started) for worker in hired), within=START)

    def _process(self, number: int) -> Process:
        scenario = self._scenario
        subject = self._subject
        if subject == subjects.OURS and number % 2:
            subject = subjects.OURS_ASYNC
        ours = self._subject == subjects.OURS
        through_proxy = scenario.through_proxy or (scenario.half_through_proxy and number % 2)
        log = self._folder / f"{number}.log"
        return Process(
            {
                "subject": subject,
                "url": self.proxy.url if through_proxy else self.server.url,
                "name": NAME,
                "lease": scenario.lease if ours or scenario.others_have_a_lease else None,
                "renew": scenario.renew,
                "ledger": self._bank.url,
                "account": self._account,
                "body": scenario.body,
                "seed": number,
                "log": str(log),
            },
            log,
        )

    @contextlib.contextmanager
    def one_stopped(self, *, inside: bool) -> Iterator[Process]:
        """Stop a worker that holds the lock, or one that does not."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            worker = self.chance.choice([each for each in self.workers if each.alive])
            worker.pause()
            if worker.diary.is_inside() == inside:
                try:
                    yield worker
                finally:
                    if worker.alive:
                        worker.resume()
                return
            worker.resume()
            time.sleep(0.001)  # let it go on before it is stopped again
        raise AssertionError("no worker could be stopped where it should be")

    def counts(self) -> Counts:
        """Let everybody recover and leave, and count."""
        over = time.monotonic()
        living = [worker for worker in self.workers if worker.alive]
        with contextlib.suppress(AssertionError):  # counted below
            until(lambda: all(worker.diary.held_since(over) for worker in living), within=RECOVERY)
        counts = Counts(stuck=sum(not worker.diary.held_since(over) for worker in living))
        self._end_workers(within=2.0 if counts.stuck else RECOVERY)
        counts.orphaned = self._orphaned()
        self._read_diaries(counts)
        books = Ledger(self._bank_client, self._account).books()
        counts.lost_updates, counts.drift, counts.fenced_off = (
            books.stale,
            books.drift,
            books.fenced_off,
        )
        return counts

    def _read_diaries(self, counts: Counts) -> None:
        scenario = self._scenario
        longest = math.inf if scenario.renew else scenario.lease
        beliefs = [belief for worker in self.workers for belief in worker.diary.beliefs(longest)]
        events = [event for worker in self.workers for event in worker.diary.events()]
        counts.cycles = sum(event[0] == "leave" for event in events)
        counts.lost = sum(event[0] == "out" and event[2] == "lost" for event in events)
        counts.errors = Counter(event[2] for event in events if event[0] == "error")
        counts.unexpected = sum(
            number for kind, number in counts.errors.items() if kind not in scenario.errors
        )
        if scenario.keeps_promise:
            counts.overlaps = count_overlaps(beliefs)
        if self._subject == subjects.OURS:
            tokens = [event[2] for event in events if event[0] == "in"]
            counts.repeated = len(tokens) - len(set(tokens))
            counts.falling = count_falling(beliefs)

    def _orphaned(self) -> int:
        if self._subject == subjects.REDIS_PY:
            deadline = time.monotonic() + self._scenario.lease + 1
            while self.control.exists(NAME) and time.monotonic() < deadline:
                time.sleep(0.05)
            return int(self.control.exists(NAME))
        from redis_locks import Lock

        # A crashed holder's lease must end; a crashed waiter's place goes at the next hand-off.
        hold = Lock(NAME, using=self.server.url).acquire(wait=2 * self._scenario.lease + 2)
        if hold is None:
            return 1
        hold.release()
        keys = keys_of(NAME)
        left: int = self.control.exists(keys.holder, keys.queue, keys.claims)
        return left

    def _end_workers(self, within: float = 2.0) -> None:
        for worker in self.workers:
            worker.ask_to_stop()
        deadline = time.monotonic() + within
        for worker in self.workers:
            worker.close(max(0.1, deadline - time.monotonic()))
