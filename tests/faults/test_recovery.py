"""The server is killed and comes back without its data: everybody works again soon."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.faults import subjects
from tests.faults.arena import Arena
from tests.faults.scenarios import SCENARIOS
from tests.support.world import until

SOON = 2.0
"""Seconds. It takes a third of one; a quarter is the longest pause between two tries to connect."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("away", [0.0, 1.0, 3.0])
def test_all_workers_hold_again_within_two_seconds_of_a_restart_without_data(away: float) -> None:
    # With the usual lease: nobody may have to wait for the end of one.
    scenario = replace(SCENARIOS["restarted-empty"], workers=8, locks=2, lease=30.0)
    took = []
    with Arena(scenario, subjects.OURS) as arena:
        for _ in range(5):
            arena.server.kill()
            time.sleep(away)
            arena.server.restart()
            back = time.monotonic()
            until(lambda since=back: all(each.diary.held_since(since) for each in arena.workers))
            took.append(time.monotonic() - back)
        counts = arena.counts()
    assert max(took) < SOON, took
    assert {} == counts.failures(), counts
