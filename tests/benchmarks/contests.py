"""Processes, threads and tasks that take locks, ours and others': free ones, and one for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial

from demo_project.benchmark.figures import jain_index, percentile
from demo_project.benchmark.subjects import OURS, SLEEPLESS
from tests.benchmarks.bare import BARE
from tests.benchmarks.crews import LOCKS, Job, Turns
from tests.benchmarks.sections import (
    Figures,
    Measure,
    Place,
    Round,
    Rounds,
    Section,
    Wanted,
    middle,
    ratio,
)

RATE, P99, LONGEST, JAIN = "acquires/s", "p99 wait, ms", "longest wait, ms", "Jain"
US, REDIS_PY, PYTHON_REDIS_LOCK = (
    LOCKS[key].label for key in (OURS, "redis-py", "python-redis-lock")
)


def figures(turns: Sequence[Turns], seconds: float) -> Figures:
    """Return the figures of what each process, thread or task did in so many seconds."""
    counts = [count for count, _ in turns]
    in_ms = sorted(wait / 1000 for _, waits_us in turns for wait in waits_us)
    return {
        RATE: sum(counts) / seconds,
        P99: percentile(in_ms, 99),
        LONGEST: percentile(in_ms, 100),
        JAIN: jain_index(counts),
    }


def opener(
    processes: int, *, own: bool = False, hold: float = 0.0, threads: int = 1, tasks: int = 0
) -> Callable[[Place], AbstractContextManager[Measure]]:
    """Return what opens a contest for one lock, or for one lock each if `own`; see `Job`."""

    @contextmanager
    def opened(place: Place) -> Iterator[Measure]:
        keys = {lock.label: key for key, lock in LOCKS.items()}
        url, seconds = place.server.url, place.seconds

        def measure(label: str) -> Figures:
            with place.server.client() as client:
                client.flushall()
            jobs = [
                Job(keys[label], f"benchmark:{own * number}", url, seconds, hold, threads, tasks)
                for number in range(processes)
            ]
            place.pool.prepare([asdict(job) for job in jobs])
            reports = place.pool.run(seconds)
            return figures([each for report in reports for each in report["turns"]], seconds)

        yield measure

    return opened


def contest(
    key: str,
    title: str,
    open_: Callable[[Place], AbstractContextManager[Measure]],
    others: Sequence[str],
    ahead: dict[str, float],
    wanted: Sequence[Wanted] = (),
    *,
    why: str = "",
) -> Section:
    """Return a section of ours and of the others that are installed.

    Ours must be ahead of some by the factors in `ahead`.
    """
    ratios = (
        Wanted(
            f"{title}: against {LOCKS[other].label}",
            partial(ratio, ours=US, theirs=LOCKS[other].label),
            least,
        )
        for other, least in ahead.items()
    )
    subjects = [LOCKS[other].label for other in (OURS, *others) if LOCKS[other].is_installed]
    return Section(key, title, subjects, open_, (*ratios, *wanted), REDIS_PY, why or MONOPOLY)


def fair(title: str) -> Sequence[Wanted]:
    """Return how fair ours is to be, and how much shorter its longest wait."""

    def longest(round_: Round) -> float:
        return round_[US][LONGEST] / round_[REDIS_PY][LONGEST]

    return (
        Wanted(f"{title}: Jain", lambda round_: round_[US][JAIN], 0.99, form="{:.3f}"),
        Wanted(f"{title}: longest wait against {REDIS_PY}", longest, 0.05, most=True),
    )


MONOPOLY = (
    "One holder of redis-py's keeps the lock while the others sleep for 0.1 s: "
    "see its longest wait and its Jain."
)
MORE_WORK = (
    "Both need two round trips; `redis_locks` also keeps a queue, a fencing token and an index."
)

ALONE, OWN, ONE, HELD, THREADS, TASKS = (
    "1 process, a free lock",
    "4 processes, a free lock each",
    "10 processes, one lock",
    "10 processes, one lock, held for 1 ms",
    "2 processes with 25 threads each, one lock",
    "100 tasks of one process, one lock",
)
PEERS = ("redis-py", "python-redis-lock", "walrus", BARE.key)

SECTIONS = (
    contest(
        "alone",
        ALONE,
        opener(1),
        ("redis-py", "lua", "python-redis-lock", "walrus", "sherlock", BARE.key),
        {"redis-py": 1.4, "lua": 1, "walrus": 1, "sherlock": 1},
        why=MORE_WORK,
    ),
    contest("own", OWN, opener(4, own=True), PEERS, {"redis-py": 1.2}, why=MORE_WORK),
    contest(
        "one",
        ONE,
        opener(10),
        ("redis-py", SLEEPLESS, *PEERS[1:]),
        {"redis-py": 1.2, "python-redis-lock": 1.5},
        fair(ONE),
    ),
    contest(
        "held",
        HELD,
        opener(10, hold=0.001),
        ("redis-py", SLEEPLESS, *PEERS[1:]),
        {BARE.key: 0.85},
        (
            Wanted(f"{HELD}: {P99}", lambda round_: round_[US][P99], 25, most=True, form="{:.1f}"),
            *fair(HELD),
        ),
    ),
    contest("threads", THREADS, opener(2, threads=25), PEERS, {"redis-py": 1}, fair(THREADS)),
    contest("tasks", TASKS, opener(1, tasks=100), ("redis-py",), {"redis-py": 1}, fair(TASKS)),
)

IN_README = (
    ("a quiet machine", "one", "quiet"),
    ("a busy machine", "one", "busy"),
    ("a quiet machine, held for 1 ms", "held", "quiet"),
)
"""The rows of README's table: the label, the section, the machine."""


def readme(measured: Mapping[str, Rounds]) -> Iterator[str]:
    """Yield the lines of README's table, given the rounds of each section."""
    subjects = (US, REDIS_PY, PYTHON_REDIS_LOCK)
    yield f"| {RATE} of 10 processes, one lock (the longest wait) | {' | '.join(subjects)} |\n"
    yield f"|---|{'---|' * len(subjects)}\n"
    for label, key, machine in IN_README:
        rounds = measured[key][machine]
        cells = (
            f"{middle(rounds, subject, RATE)} ({middle(rounds, subject, LONGEST)} ms)"
            for subject in subjects
        )
        yield f"| {label} | {' | '.join(cells)} |\n"
