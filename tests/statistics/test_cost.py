"""What statistics cost each acquire and release."""

from __future__ import annotations

import time
import tracemalloc
from statistics import median

import pytest
from django.test import override_settings

from redis_locks import Lock
from redis_locks.testing.server import EmbeddedServer

MOST = 1.05
TURNS, CYCLES = 60, 300


def cycles(url: str, *, on: bool) -> float:
    """Return the seconds of the processor, of all threads, that acquires and releases take."""
    with override_settings(REDIS_LOCKS={"CONNECTION": url, "STATISTICS": on}):
        lock = Lock("bench")
        for number in range(20 + CYCLES):
            if number == 20:  # connected, and its scripts known
                began = time.process_time()
            with lock:
                pass
        return time.process_time() - began


@pytest.mark.benchmark
def test_statistics_add_at_most_a_twentieth(private_server: EmbeddedServer) -> None:
    """`pytest -m benchmark -s` prints it."""
    ratios = []
    for turn in range(TURNS):
        # In turn, for the machine changes its speed; each goes first as often as the other.
        order = (True, False) if turn % 2 else (False, True)
        found = {on: cycles(private_server.url, on=on) for on in order}
        ratios.append(found[True] / found[False])
    ratio = median(ratios)
    print(f"statistics: {ratio:.3f} of the CPU time without")  # noqa: T201
    assert ratio <= MOST


def test_large_sets_are_not_kept_until_the_statistics_are_sent(counted: None) -> None:
    """One of them takes more than 100 kB."""
    tracemalloc.start()
    try:
        for number in range(22):
            if number == 2:  # connected, and its names known
                before, _ = tracemalloc.get_traced_memory()
            with Lock(*map(str, range(900))):
                pass
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000
