"""What statistics cost each acquire and release."""

from __future__ import annotations

import time
from statistics import median

import pytest
from django.test import override_settings

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer

MOST = 1.05
CYCLES = 200
TURNS = 80


def cost(url: str, *, on: bool) -> float:
    """The CPU seconds of this process, all threads of it, for some cycles."""
    with override_settings(REDIS_LOCKS={"CONNECTION": url, "STATISTICS": on}):
        lock = Lock("measured")
        for _ in range(20):  # connected, and its scripts known
            with lock:
                pass
        started = time.process_time()
        for _ in range(CYCLES):
            with lock:
                pass
        return time.process_time() - started


@pytest.mark.benchmark
def test_statistics_add_at_most_a_twentieth(private_server: EmbeddedServer) -> None:
    """`pytest -m benchmark -s` prints it; `python -m tests.benchmarks.statistics` measures elapsed time."""
    url = private_server.url
    # In turn, for the machine changes its speed; each goes first as often as the other.
    ratios = []
    for turn in range(TURNS):
        order = (True, False) if turn % 2 else (False, True)
        found = {on: cost(url, on=on) for on in order}
        ratios.append(found[True] / found[False])
    ratio = median(ratios)
    print(f"statistics: {ratio:.3f} of the CPU time without")  # noqa: T201
    assert ratio <= MOST
