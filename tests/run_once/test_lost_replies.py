"""The script ran, its reply got lost: no attempt is counted twice, no verdict is lost."""

from __future__ import annotations

from itertools import count

import pytest

from redis_locks import run_once
from tests.faults.proxy import Proxy
from tests.run_once.world import Records, Workers, begun, died
from tests.support import leases, stored
from tests.support.world import PATIENCE

pytestmark = [pytest.mark.parametrize("losses", [1, 2]), pytest.mark.ci]


def story(workers: Workers, records: Records, name: str, url: str) -> None:
    """A job is begun, fails, and is done by one that waits; then there is nothing left to do."""
    job = run_once(name, using=url, wait=PATIENCE, max_attempts=2, store_result=True, renew=False)
    first = begun(workers, job)
    assert first.fencing_token == stored.fence(records.client, records.keys(name).lock)
    waiting = workers.start(workers.acquire, job)
    records.until_waiters(name, 1)
    workers.fail(first, "broken")
    second = waiting.result(PATIENCE)
    workers.extend(second, 60)
    assert [1, 2] == [first.number, second.number]
    workers.done(second, "sent")
    assert workers.acquire(job) is None
    status = workers.status(job)
    assert ("done", 2, "sent") == (status.state, status.attempts, status.result)
    assert set() == records.left(name)


def test_whichever_reply_is_lost_the_story_is_the_same(
    workers: Workers, records: Records, name: str, proxy: Proxy, losses: int
) -> None:
    for position in count(1):
        proxy.lose(position, losses=losses)
        story(workers, records, f"{name}:{position}", proxy.url)
        if not proxy.lost:
            break
    assert position > 7


def test_a_renewal_whose_reply_was_lost_is_repeated(
    workers: Workers, name: str, proxy: Proxy, losses: int
) -> None:
    attempt = begun(workers, run_once(name, using=proxy.url, lease=1.2))
    proxy.lose(1, losses=losses)
    leases.until_renewed(attempt)
    assert losses == proxy.lost
    workers.done(attempt)


def test_learning_that_there_is_nothing_to_do_survives_a_lost_reply(
    workers: Workers, records: Records, name: str, proxy: Proxy, losses: int
) -> None:
    job = run_once(name, using=proxy.url, max_attempts=1, wait=PATIENCE)
    died(workers, records, job, name)
    proxy.lose(1, losses=losses)
    assert workers.acquire(job) is None
    assert losses == proxy.lost
    assert "exhausted" == workers.status(job).state
