"""A circle of waits across processes: each has a lock, and wants that of the next one."""

from __future__ import annotations

import time

import pytest

from tests.faults.processes import Crew
from tests.support.timings import LOOK_AGAIN


@pytest.mark.parametrize("size", [2, pytest.param(10, marks=pytest.mark.ci)])
def test_the_one_that_came_last_is_told_in_time_and_the_others_go_on(
    crew: Crew, name: str, size: int
) -> None:
    workers = crew.hire(size)
    locks = [f"{name}:{number}" for number in range(size)]
    for worker, lock in zip(workers, locks, strict=True):
        assert worker.ask("acquire", name=lock)["granted"]
    for worker, lock in zip(workers, [*locks[1:], locks[0]], strict=True):
        worker.tell("acquire", name=lock)
        crew.server_side.until_waiters(lock, 1)
    closed = time.monotonic()
    victim = workers[-1].answer()
    assert "DeadlockDetected" == victim["error"]
    # At its first look, which is due after DEADLOCK_TIMEOUT, and not at one of the next.
    assert victim["at"] - closed < 1.0 + LOOK_AGAIN * 0.9
    workers[-1].ask("release")
    for worker in reversed(workers[:-1]):
        assert worker.answer()["granted"]
        for _ in range(2):
            worker.ask("release")
    assert set() == set().union(*map(crew.server_side.left_of, locks))
