"""Traffic that cannot deadlock, by threads of processes whose waiters look for deadlocks.

Locks have levels, and whoever holds one asks for higher ones only; of one level it asks once: for a
lock, a shared lock, a permit, or a set. So each deadlock that is told is a false alarm.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

from redis_locks.testing.server import EmbeddedServer
from tests.support import stored
from tests.support.children import processes

PROCESSES, THREADS = 4, 6
LEVELS, WIDTH = 4, 3
CAPACITY = 2
MOST_NESTED = 3
PATIENCE = 60.0
PROGRESS = 10.0


class Tally:
    """What the threads of one process did."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.alarms: list[str] = []

    def add(self, what: str, count: int = 1) -> None:
        with self._mutex:
            self.counts[what] += count


def request(level: int, chance: random.Random) -> tuple[str, Any]:
    """Return what to ask for at one level, and its kind."""
    from redis_locks import Lock, Semaphore

    kind = chance.choice(("exclusive", "shared", "set", "permit"))
    if kind == "permit":
        return kind, Semaphore(f"permits:{level}", CAPACITY, wait=PATIENCE)
    names = [f"lock:{level}:{number}" for number in chance.sample(range(WIDTH), 2)]
    if kind == "set":
        mode: Any = chance.choice(("exclusive", "shared"))
        return kind, Lock(*names, mode=mode, wait=PATIENCE)
    return kind, Lock(names[0], mode="shared" if kind == "shared" else "exclusive", wait=PATIENCE)


def nest(chance: random.Random, tally: Tally) -> None:
    """Take up to `MOST_NESTED`, one within the other; now and then keep them until others look."""
    levels = sorted(chance.sample(range(LEVELS), chance.randint(1, MOST_NESTED)))
    with ExitStack() as held:
        for level in levels:
            kind, wanted = request(level, chance)
            held.enter_context(wanted)
            tally.add(kind)
            tally.add("acquires")
        if chance.random() < 0.02:
            time.sleep(chance.uniform(0, 0.08))


def count_looks(tally: Tally) -> None:
    """Count from here on how often this process looks for a deadlock."""
    from tests.support import calls

    calls.count_looks(lambda: tally.add("looks"))


def repeat(chance: random.Random, acquires: int, tally: Tally) -> None:
    """Go on until this process has acquired so many times; the main function of a thread."""
    from redis_locks import DeadlockDetected, LockError

    while tally.counts["acquires"] < acquires:
        try:
            nest(chance, tally)
        except DeadlockDetected as error:
            tally.alarms.append(str(error))
        except LockError as error:
            tally.add(type(error).__name__)


def worker(settings: dict[str, Any], seed: int, acquires: int, results: Any) -> None:
    """Acquire so many times; the main function of a process."""
    import django
    from django.conf import settings as django_settings

    logging.disable()
    django_settings.configure(REDIS_LOCKS=settings)
    django.setup()
    tally = Tally()
    count_looks(tally)
    threads = [
        threading.Thread(target=repeat, args=(random.Random(f"{seed}:{number}"), acquires, tally))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PROGRESS)
        while thread.is_alive():
            sys.stderr.write(f"process {seed}: {tally.counts['acquires']:,} of {acquires:,}\n")
            thread.join(PROGRESS)
    results.put((tally.counts, tally.alarms))


def traffic(acquires: int, *, deadlock_timeout: float = 0.05) -> dict[str, Any]:
    """Acquire so many times in all; return what was counted, and what should not have been."""
    started = time.monotonic()
    counts: Counter[str] = Counter()
    alarms: list[str] = []
    with EmbeddedServer(use_environment=False) as server:
        settings = {"CONNECTION": server.url, "DEADLOCK_TIMEOUT": deadlock_timeout}
        results: Any = processes.Queue()
        each = -(-acquires // PROCESSES)
        workers = [
            processes.Process(target=worker, args=(settings, seed, each, results), daemon=True)
            for seed in range(PROCESSES)
        ]
        for process in workers:
            process.start()
        for _ in workers:
            counted, told = results.get()
            counts += counted
            alarms += told
        for process in workers:
            process.join()
        with server.client() as client:
            left = stored.left_over(client)
    known = {"acquires", "looks", "exclusive", "shared", "set", "permit"}
    failures: dict[str, Any] = {kind: count for kind, count in counts.items() if kind not in known}
    failures |= {"false alarms": len(alarms)} if alarms else {}
    failures |= {"keys left": left} if left else {}
    return {
        "deadlock timeout": deadlock_timeout,
        "seconds": round(time.monotonic() - started, 1),
        **dict(counts.most_common()),
        "alarms": alarms[:3],
        "failures": failures,
    }
