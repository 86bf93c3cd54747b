"""The four problems every simple Redis lock has, one test each, with real processes."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from tests.faults.processes import Crew
from tests.support import stored
from tests.support.world import keys_of, until

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
def test_no_two_of_ten_processes_ever_believe_at_the_same_time_that_they_hold(
    crew: Crew, name: str
) -> None:
    workers = crew.hire(10)
    for seed, worker in enumerate(workers):
        worker.tell("stress", name=name, seconds=SECONDS, seed=seed)
    reports = [worker.answer(within=SECONDS + 60) for worker in workers]
    beliefs = sorted(tuple(belief) for report in reports for belief in report["beliefs"])
    overlaps = [
        (earlier, later) for earlier, later in itertools.pairwise(beliefs) if later[0] < earlier[1]
    ]
    fences = [fence for _, _, fence in beliefs]
    assert [] == overlaps
    assert sorted(set(fences)) == fences
    assert [0] * 10 == [report["errors"] for report in reports]
    assert all(len(report["beliefs"]) > 10 for report in reports)
    assert sum(report["lost"] for report in reports) > 0  # some did overrun their lease
    until(lambda: stored.lease_left_ms(crew.server_side.client, keys_of(name).lock) < 0)
