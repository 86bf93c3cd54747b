"""The four problems every simple Redis lock has, one test each, with real processes."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from tests.faults import subjects
from tests.faults.processes import Crew
from tests.faults.scenarios import SCENARIOS, run

SECONDS = float(os.environ.get("REDIS_LOCKS_STRESS_SECONDS", "5"))
"""How long ten processes compete; 20 in CI."""


def test_a_holder_that_overran_its_lease_is_told_and_cannot_release_its_successors_lock(
    crew: Crew, name: str
) -> None:
    slow, next_one = crew.hire(2)
    assert slow.ask("acquire", name=name, lease=0.2, renew=False)["granted"]
    successor = next_one.ask("acquire", name=name)
    assert successor["granted"]
    assert slow.ask("is_lost")["is_lost"]
    assert "LockLost" == slow.ask("release")["error"]
    assert successor["token"] == crew.server_side.holder(name)
    assert not next_one.ask("is_lost")["is_lost"]
    assert next_one.ask("release")["released"]


def test_waiters_see_who_holds_and_the_lock_of_a_dead_holder_passes_on_when_its_lease_ends(
    crew: Crew, name: str
) -> None:
    dying, asking, waiting = crew.hire(3)
    dying.ask("acquire", name=name, lease=1.0, label="the import")
    asking.tell("enter", name=name, wait=0)
    refused = asking.answer()
    assert "LockNotAvailable" == refused["error"]
    assert "the import" in refused["holder"]
    waiting.tell("acquire", name=name)
    crew.server_side.until_waiters(name, 1)
    dying.kill()
    assert waiting.answer()["granted"]


@pytest.mark.verdict
def test_simultaneous_acquires_of_an_expired_lock_grant_exactly_one(crew: Crew, name: str) -> None:
    workers = crew.hire(5)
    for turn in range(10):
        lock = f"{name}:{turn}"
        workers[0].ask("acquire", name=lock, lease=0.1, renew=False)
        at = time.monotonic() + 0.15
        for worker in workers:
            worker.tell("acquire", name=lock, wait=0, lease=30, not_before=at)
        granted = [worker.answer()["granted"] for worker in workers]
        assert 1 == granted.count(True)


@pytest.mark.verdict
@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_no_two_of_ten_processes_ever_believe_at_the_same_time_that_they_hold() -> None:
    """Many of them hold for longer than their leases, and nobody renews these."""
    scenario = replace(SCENARIOS["slow-hard"], workers=10, lease=0.1, body=(0.0, 0.12))
    counts = run(scenario, subjects.OURS, SECONDS)
    assert {} == counts.failures(), counts
    assert counts.cycles > 2 * scenario.workers
    assert counts.lost > 0
