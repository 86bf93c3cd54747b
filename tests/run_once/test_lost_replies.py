"""The script ran, its reply got lost: no attempt is counted twice, no verdict is lost."""

from __future__ import annotations

import pytest

from redis_locks import run_once
from tests.faults.proxy import Proxy
from tests.run_once.world import Records, Workers, begun, died
from tests.support import leases, stored
from tests.support.world import PATIENCE

pytestmark = [pytest.mark.parametrize("losses", [1, 2]), pytest.mark.ci]


def test_a_beginning_whose_reply_was_lost_is_one_attempt(
    workers: Workers, records: Records, name: str, proxy: Proxy, losses: int
) -> None:
    workers.status(run_once(name, using=proxy.url))  # connected and the script cached
    proxy.lose(1, losses=losses)
    attempt = begun(workers, run_once(name, using=proxy.url))
    assert losses == proxy.lost
    assert 1 == attempt.number
    assert attempt.fencing_token == stored.fence(records.client, records.keys(name).lock)
    workers.done(attempt)
    assert "1" == records.of(name)["attempt"]


def test_done_whose_reply_was_lost_is_recorded_once_and_no_error(
    workers: Workers, records: Records, name: str, proxy: Proxy, losses: int
) -> None:
    job = run_once(name, using=proxy.url, store_result=True, renew=False)
    attempt = begun(workers, job)
    proxy.lose(1, losses=losses)
    workers.done(attempt, "sent")
    assert losses == proxy.lost
    status = workers.status(job)
    assert ("done", 1, "sent") == (status.state, status.attempts, status.result)
    assert set() == records.left(name)


def test_a_failure_whose_reply_was_lost_leaves_the_next_attempt_alone(
    workers: Workers, records: Records, name: str, proxy: Proxy, losses: int
) -> None:
    first = begun(workers, run_once(name, using=proxy.url, renew=False))
    waiting = workers.start(workers.acquire, run_once(name, wait=PATIENCE))
    records.until_waiters(name, 1)
    proxy.lose(1, losses=losses)
    workers.fail(first, "broken")
    assert losses == proxy.lost
    second = waiting.result(PATIENCE)
    assert 2 == second.number
    second.check()
    workers.done(second)


def test_a_renewal_whose_reply_was_lost_is_repeated(
    workers: Workers, name: str, proxy: Proxy, losses: int
) -> None:
    attempt = begun(workers, run_once(name, using=proxy.url, lease=1.2))
    proxy.lose(1, losses=losses)
    leases.until_renewed(attempt)
    assert losses == proxy.lost
    workers.done(attempt)


@pytest.mark.parametrize("position", [1, 2, 3, 4])
def test_a_worker_that_waits_loses_replies_at_any_step_and_still_takes_over_once(
    workers: Workers, records: Records, name: str, proxy: Proxy, losses: int, position: int
) -> None:
    """Its steps: begin, join the queue, a sign of life or begin again, done."""
    first = begun(workers, run_once(name))
    proxy.lose(position, losses=losses)
    waiting = workers.start(workers.acquire, run_once(name, using=proxy.url, wait=PATIENCE))
    records.until_waiters(name, 1)
    workers.fail(first, "broken")
    second = waiting.result(PATIENCE)
    assert 2 == second.number
    workers.done(second)
    assert "2" == records.of(name)["attempt"]
    assert "done" == workers.status(run_once(name)).state


def test_learning_that_there_is_nothing_to_do_survives_a_lost_reply(
    workers: Workers, records: Records, name: str, proxy: Proxy, losses: int
) -> None:
    job = run_once(name, using=proxy.url, max_attempts=1, wait=PATIENCE)
    died(workers, records, job, name)
    proxy.lose(1, losses=losses)
    assert workers.acquire(job) is None
    assert losses == proxy.lost
    assert "exhausted" == workers.status(job).state
