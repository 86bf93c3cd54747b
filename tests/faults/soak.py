"""A long run: 8 processes acquire under fault after fault, and their memory stays flat."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import psutil

from tests.faults import clock, subjects
from tests.faults.arena import Arena
from tests.faults.injectors import BACK, FORWARD, LOSING, MIXED, RESTARTED, mix
from tests.faults.scenarios import AOF, SCENARIOS
from tests.longevity.vital_signs import Chart
from tests.support import stored

WORKERS = 8
MORTAL = 2
"""How many of them are killed and replaced; the others live from the beginning to the end."""

CALM = 1.0
"""Seconds between two faults."""

PROGRESS = 10.0
"""Seconds between two lines of progress."""

_KEEPING = replace(
    SCENARIOS["mix"],
    key="soak",
    workers=WORKERS,
    locks=2,
    body=(0.0, 0.0),
    sets_the_clock=clock.why_not() is None,
    # Rewritten soon, or the server would be gone for long while it reads.
    options=(*AOF, "--auto-aof-rewrite-min-size", "1mb"),
)
_LOSING = replace(_KEEPING, key="losing", options=())


def soak(
    acquires: int, *, losing: bool = False, calm: float = CALM, seed: int | None = None
) -> dict[str, Any]:
    """Run for so many acquires; return what was counted, and what should not have been.

    Args:
        acquires: How many.
        losing: Whether the server may lose its data. Its clock then never goes back: tokens could
            fall.
        calm: Seconds between two faults.
        seed: Of the choice of faults; None for the usual one.
    """
    started = said = time.monotonic()
    scenario = _LOSING if losing else _KEEPING
    faults = MIXED | (LOSING if losing else RESTARTED)
    if scenario.sets_the_clock:
        faults |= FORWARD if losing else FORWARD | BACK
    done = Counter(dict.fromkeys(faults, 0))
    with Arena(scenario, subjects.OURS) as arena:
        if seed is not None:
            arena.chance.seed(seed)
        living = arena.workers[: WORKERS - MORTAL]
        for worker in living:
            worker.spared = True
        memory = Chart()
        while (cycles := arena.read()) < acquires:
            time.sleep(calm)
            done[mix(arena, faults)] += 1
            for number, worker in enumerate(living):
                resident = psutil.Process(worker.pid).memory_info().rss
                memory.add(f"worker {number}", {"resident": resident})
            memory.add("server", {"used_memory": arena.control.info("memory")["used_memory"]})
            if time.monotonic() - said > PROGRESS:
                said = time.monotonic()
                _say(cycles, acquires, said - started)
        seconds = time.monotonic() - started
        counts = arena.counts()
        left = stored.left_over(arena.control)
    trends = dict(memory.trends())
    failures: dict[str, Any] = dict(counts.failures())
    failures |= {label: str(trend) for label, trend in trends.items() if not trend.is_flat}
    failures |= {"keys left": len(left)} if left else {}
    return {
        "acquires": counts.cycles,
        "seconds": round(seconds, 1),
        "acquires per second": round(counts.cycles / seconds),
        "faults": dict(done.most_common()),
        "counts": {**asdict(counts), "errors": dict(counts.errors)},
        "memory": {label: str(trend) for label, trend in trends.items()},
        "keys left": left,
        "failures": failures,
    }


def _say(cycles: int, acquires: int, seconds: float) -> None:
    rate = cycles / seconds
    rest = (acquires - cycles) / rate / 60 if cycles else float("inf")
    sys.stderr.write(f"{cycles:,} of {acquires:,} acquires, {rate:.0f}/s, {rest:.0f} min left\n")
    sys.stderr.flush()
