"""What statistics cost: instructions of each acquire and release, and memory."""

from __future__ import annotations

import shutil
import tracemalloc

import pytest

from redis_locks import Lock
from tests.benchmarks.instructions import measured

MOST = 1.08
TRIES = 3


@pytest.mark.ci
@pytest.mark.timed
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_statistics_add_at_most_a_twelfth() -> None:
    """Of a cycle's instructions: they are the same on any machine, but for renewal by the clock."""
    found: dict[str, float] = {}
    for _ in range(TRIES):
        now = measured([("with", "uncounted")])
        found = {kind: min(figure, found.get(kind, figure)) for kind, figure in now.items()}
        if found["with"] <= MOST * found["uncounted"]:
            break
    assert found["with"] <= MOST * found["uncounted"]


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
