"""What statistics cost each acquire and release."""

from __future__ import annotations

import time
from statistics import median

import pytest

from redis_locks.testing.server import EmbeddedServer
from tests.benchmarks.statistics import cycle

MOST = 1.05
TURNS = 60


@pytest.mark.benchmark
def test_statistics_add_at_most_a_twentieth(private_server: EmbeddedServer) -> None:
    """`pytest -m benchmark -s` prints it; `python -m tests.benchmarks.statistics` measures elapsed time."""
    url = private_server.url
    # CPU time of all threads. In turn, for the machine changes its speed; each goes first as often
    # as the other.
    ratios = []
    for turn in range(TURNS):
        order = (True, False) if turn % 2 else (False, True)
        found = {on: cycle(url, on=on, clock=time.process_time) for on in order}
        ratios.append(found[True] / found[False])
    ratio = median(ratios)
    print(f"statistics: {ratio:.3f} of the CPU time without")  # noqa: T201
    assert ratio <= MOST
