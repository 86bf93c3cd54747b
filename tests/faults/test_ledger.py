"""Rows written by many processes, and by one that comes too late."""

from __future__ import annotations

import itertools
import json
import os
import signal

import pytest
from django.db import connections

from tests.faults.processes import Crew
from tests.ledger.models import Counter

PROCESSES = 8
INCREMENTS = int(os.environ.get("REDIS_LOCKS_INCREMENTS", "400"))
"""In all, over the processes."""


def entry_of(database: str) -> str:
    used = connections[database].settings_dict
    return json.dumps({key: used[key] for key in ("ENGINE", "NAME", "USER", "HOST", "OPTIONS")})


def total_after(crew: Crew, database: str, name: str, *ways: str) -> int:
    """The sum of increments by views under ATOMIC_REQUESTS; processes take turns in the ways."""
    Counter.objects.using(database).create(name=name)
    workers = crew.hire(PROCESSES, "ledger_worker.py", entry_of(database))
    times = INCREMENTS // PROCESSES
    for worker, way in zip(workers, itertools.cycle(ways), strict=False):
        worker.tell("increment", name=name, times=times, way=way)
    for worker in workers:
        assert {"done": times}.items() <= worker.answer(within=300).items()
    return Counter.objects.using(database).get(name=name).value


@pytest.mark.verdict
@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_a_lock_kept_until_the_transaction_ends_loses_none(
    postgres: str, crew: Crew, name: str
) -> None:
    assert INCREMENTS == total_after(crew, postgres, name, "decorated", "inside")


@pytest.mark.parametrize("by", ["save", pytest.param("update", marks=pytest.mark.ci)])
def test_the_late_write_of_a_holder_stopped_past_its_lease_is_refused(
    database: str, crew: Crew, name: str, by: str
) -> None:
    Counter.objects.using(database).create(name=name, value=100)
    stopped, successor = crew.hire(2, "ledger_worker.py", entry_of(database))
    old = stopped.ask("start", name=name, lease=0.5)
    stopped.send(signal.SIGSTOP)
    stopped.tell("write", by=by, amount=1, unaware=True)
    new = successor.ask("start", name=name, lease=30)
    assert new["fencing_token"] > old["fencing_token"]
    # It has only read when the late write comes.
    assert 100 == successor.ask("read", name=name)["read"]
    stopped.send(signal.SIGCONT)
    late = stopped.answer()
    assert "StaleHold" == late["error"]
    assert str(new["fencing_token"]) in late["message"]
    aware = stopped.ask("write", by=by, amount=1)
    assert "StaleHold" == aware["error"]
    assert "was lost" in aware["message"]
    assert 110 == successor.ask("write", by=by, amount=10)["written"]
    assert successor.ask("release")["released"]
    row = Counter.objects.using(database).get(name=name)
    assert (110, new["fencing_token"]) == (row.value, row.fence)
