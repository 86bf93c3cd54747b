"""One run of one scenario: the workers, their server, and the account that they protect."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from redis_locks.testing.server import EmbeddedServer
from tests.faults import bank_worker, subjects
from tests.faults.beliefs import Span
from tests.faults.clock import Clock, server_with_a_clock
from tests.faults.counts import Counts, Diary, Tally
from tests.faults.ledger import Ledger, new_account
from tests.faults.proxy import Proxy
from tests.faults.sentinels import Watched
from tests.support import stored
from tests.support.children import processes
from tests.support.world import keys_of, until

if TYPE_CHECKING:
    from tests.faults.scenarios import Scenario

NAME = "account"
START = 30.0
BUSY = 10.0
"""Seconds for a busy machine to serve a lock that is free."""


class Process:
    """One worker: its process and what it wrote down."""

    def __init__(self, orders: dict[str, Any], log: Path) -> None:
        most = {"exclusive": 1, "shared": math.inf}.get(orders["mode"])
        if most is None:
            most = int(orders["mode"].removeprefix("permit:"))
        self.diaries = {name: Diary(log, most) for name in orders["names"]}
        """For each lock that it holds at once, the same again."""
        self.diary = next(iter(self.diaries.values()))
        self.spared = False
        """Whether it is not to be killed."""
        self._process = processes.Process(target=bank_worker.work, args=(orders,), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def pause(self) -> None:
        """Stop the process; returns once it stands still."""
        self._send(signal.SIGSTOP)
        until(lambda: _state(self.pid).startswith("T"))

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        for diary in self.diaries.values():
            diary.killed_at = time.monotonic()

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def close(self, within: float) -> None:
        """Wait until the process has ended; kill it after `within` seconds."""
        self._process.join(within)
        if self._process.is_alive():
            self.kill()

    def _send(self, number: int) -> None:
        os.kill(self.pid, number)


def _state(pid: int) -> str:
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
        self._forgotten: list[Span] = []

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
            self.locks = {f"{NAME}:{number}": new_account() for number in range(scenario.locks)}
            self._counts = Counts()
            self._tallies = {name: self._tally() for name in self.locks}
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
        # Of both kinds some are cut off, and some of either at each lock.
        through_proxy = scenario.through_proxy or (scenario.half_through_proxy and number // 2 % 2)
        party = scenario.parties[number // 2 % len(scenario.parties)]
        names = list(self.locks)
        if not party.takes_all:
            names = [names[number // 4 % len(names)]]
        log = self._folder / f"{number}.log"
        return Process(
            {
                "subject": subject,
                "url": self.proxy.url if through_proxy else self.server.url,
                "names": names,
                "mode": party.mode,
                "lease": scenario.lease if ours or scenario.others_have_a_lease else None,
                "renew": scenario.renew,
                "ledger": self._bank.url,
                "accounts": [self.locks[name] for name in names],
                "body": scenario.body,
                "seed": number,
                "log": str(log),
            },
            log,
        )

    @contextlib.contextmanager
    def one_stopped(self, *, inside: bool, to_die: bool = False) -> Iterator[Process]:
        """Stop a worker that holds the lock, or does not; `to_die`: never one that is spared."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            living = [each for each in self.workers if each.alive and not (to_die and each.spared)]
            worker = self.chance.choice(living)
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

    @contextlib.contextmanager
    def leases_end(self) -> Iterator[None]:
        """The server ends all leases inside; their holders believe in them while they last.

        For two: who stood in the queue meanwhile counts from when it heard of its grant.
        """
        began = time.monotonic()
        yield
        self._forgotten.append(Span(began, time.monotonic() + 2 * self._scenario.lease))

    def counts(self) -> Counts:
        """Let everybody recover and leave, and count."""
        over = time.monotonic()
        living = [worker for worker in self.workers if worker.alive]
        with contextlib.suppress(AssertionError):  # counted below
            until(
                lambda: all(worker.diary.held_since(over) for worker in living),
                within=self._scenario.recovery,
            )
        counts = self._counts
        counts.recovery = round(time.monotonic() - over, 3)
        counts.stuck = sum(not worker.diary.held_since(over) for worker in living)
        self._end_workers(within=2.0 if counts.stuck else 10.0)
        counts.orphaned = sum(map(self._orphaned, self.locks))
        self.read(final=True)
        for account in self.locks.values():
            books = Ledger(self._bank_client, account).books()
            counts.lost_updates += books.stale
            counts.drift += books.drift
            counts.fenced_off += books.fenced_off
        return counts

    def read(self, *, final: bool = False) -> int:
        """Count what the workers wrote down since the last time; return all cycles so far."""
        for name, tally in self._tallies.items():
            diaries = [worker.diaries[name] for worker in self.workers if name in worker.diaries]
            tally.read(diaries, final=final)
        return self._counts.cycles

    def _tally(self) -> Tally:
        scenario = self._scenario
        return Tally(
            self._counts,
            longest=math.inf if scenario.renew else scenario.lease,
            allowed=scenario.errors,
            promised=scenario.keeps_promise,
            numbered=self._subject == subjects.OURS,
            forgotten=self._forgotten,
        )

    def _orphaned(self, name: str) -> int:
        if self._subject == subjects.REDIS_PY:
            deadline = time.monotonic() + self._scenario.lease + 1
            while self.control.exists(name) and time.monotonic() < deadline:
                time.sleep(0.05)
            return int(self.control.exists(name))
        from redis_locks import Lock

        # A crashed holder's lease must end; a crashed waiter's place goes at the next hand-off.
        wait = 2 * self._scenario.lease + BUSY
        hold = Lock(name, using=self.server.url).acquire(wait=wait)
        if hold is None:
            return 1
        hold.release()
        return len(stored.in_use(self.control, keys_of(name).lock))

    def _end_workers(self, within: float = 2.0) -> None:
        for worker in self.workers:
            worker.ask_to_stop()
        deadline = time.monotonic() + within
        for worker in self.workers:
            worker.close(max(0.1, deadline - time.monotonic()))
