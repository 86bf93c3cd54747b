"""What statistics cost per acquire and release, on and off in turn: `python -m tests.benchmarks.statistics`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

import django
from django.test import override_settings

from redis_locks.testing.server import EmbeddedServer

CYCLES = 300


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="how often both are run")
    rounds = parser.parse_args().rounds
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    with EmbeddedServer(use_environment=False) as server:
        django.setup()
        times: dict[bool, list[float]] = {False: [], True: []}
        ratios = []
        for number in range(rounds):
            # Each goes first as often as the other.
            for on in (number % 2 == 0, number % 2 == 1):
                times[on].append(cycle(server.url, on=on))
            ratios.append(times[True][-1] / times[False][-1])
    print(  # noqa: T201 - for whoever runs it
        f"acquire and release: {median(times[False]):.1f} us without statistics, "
        f"{median(times[True]):.1f} us with; median of the ratios within a round {median(ratios):.3f}"
    )


def cycle(url: str, *, on: bool, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the microseconds of an acquire and a release, by a clock that counts seconds."""
    from redis_locks import Lock

    with override_settings(REDIS_LOCKS={"CONNECTION": url, "STATISTICS": on}):
        lock = Lock("bench")
        for _ in range(20):  # connected, and its scripts known
            with lock:
                pass
        started = clock()
        for _ in range(CYCLES):
            with lock:
                pass
        return (clock() - started) / CYCLES * 1e6


if __name__ == "__main__":
    main()
