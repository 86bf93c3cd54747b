"""The eight cases of "Redis Global Locks Redux", a test each, in the order of that text.

`checkLock`, when a worker checks on the job:

1. the lock changed meanwhile: `test_check_1_...`
2. the lock is gone, as the work is completed: `test_check_2_...`
3. it says DONE: `test_check_3_...` (nobody deletes it, it expires)
4. nobody has begun an attempt since the last look: `test_check_4_...`
5. somebody has: `test_check_5_...`

`reacquireLock`, when it takes over:

1. the allotment of attempts is used up: `test_takeover_1_...`
2. the lock changed meanwhile: `test_takeover_2_...`
3. it has the lock: `test_takeover_3_...`
"""

from __future__ import annotations

from redis_locks import run_once
from tests.run_once.world import Records, Workers, begun, died
from tests.support.world import PATIENCE, until


def test_check_1_a_worker_that_is_beaten_while_it_checks_goes_on_waiting(
    workers: Workers, records: Records, name: str
) -> None:
    """The first attempt ends between the look and the try, and somebody else is quicker."""
    job = run_once(name, wait=PATIENCE)
    first = begun(workers, job)
    quicker = workers.start(workers.acquire, job)
    records.until_waiters(name, 1)
    beaten = workers.start(workers.acquire, job)
    records.until_waiters(name, 2)
    workers.fail(first, "broken")
    second = quicker.result(PATIENCE)
    assert 2 == second.number
    assert not beaten.done()
    workers.fail(second, "broken again")
    third = beaten.result(PATIENCE)
    assert 3 == third.number
    workers.done(third)


def test_check_2_a_worker_that_finds_the_lock_gone_because_the_work_is_completed_stops(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name, wait=PATIENCE)
    first = begun(workers, job)
    checking = workers.start(workers.acquire, job)
    records.until_waiters(name, 1)
    workers.done(first)
    assert checking.result(PATIENCE) is None
    assert set() == records.left(name)
    assert "1" == records.of(name)["attempt"]


def test_check_3_a_worker_that_finds_done_leaves_it_for_all_others_and_it_expires_by_itself(
    workers: Workers, records: Records, name: str
) -> None:
    """Nobody has to clean up, so nobody who cleans up can make another worker start anew."""
    job = run_once(name, done_ttl=60)
    workers.done(begun(workers, job))
    for _ in range(3):
        assert workers.acquire(job) is None
        assert "done" == workers.status(job).state
    assert 50 < records.kept(name) <= 60


def test_check_4_a_worker_that_finds_the_last_attempt_dead_takes_over(
    workers: Workers, records: Records, name: str
) -> None:
    """Nobody has begun another attempt since that one."""
    job = run_once(name)
    dead = died(workers, records, job, name)
    attempt = begun(workers, job)
    assert 2 == attempt.number
    assert attempt.fencing_token > dead.fencing_token
    workers.done(attempt)


def test_check_5_a_worker_that_finds_a_later_attempt_under_way_waits_and_uses_no_attempt_up(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name, wait=PATIENCE, max_attempts=9)
    died(workers, records, job, name)
    later = begun(workers, job)
    assert 2 == later.number
    checking = workers.start(workers.acquire, job)
    records.until_waiters(name, 1)
    assert 2 == workers.status(job).attempts
    workers.fail(later, "broken")
    attempt = checking.result(PATIENCE)
    assert 3 == attempt.number
    workers.done(attempt)


def test_takeover_1_no_attempt_is_begun_beyond_the_allotment_and_that_expires_by_itself(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name, max_attempts=2, done_ttl=60)
    died(workers, records, job, name)
    died(workers, records, job, name)
    for _ in range(3):
        assert workers.acquire(job) is None
        status = workers.status(job)
        assert ("exhausted", 2) == (status.state, status.attempts)
    assert not records.left(name) - {"index"}
    assert 0 < records.kept(name) <= 60 + 10


def test_takeover_2_of_many_workers_that_take_over_at_once_one_does_and_the_others_check_back(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name, wait=PATIENCE)
    died(workers, records, job, name)
    rush = [workers.start(workers.acquire, job) for _ in range(8)]
    records.until_waiters(name, 7)
    until(lambda: any(each.done() for each in rush))
    (winner,) = [each.result() for each in rush if each.done()]
    assert 2 == winner.number
    assert 2 == workers.status(job).attempts
    workers.done(winner)
    outcomes = [each.result(PATIENCE) for each in rush]
    assert 7 == outcomes.count(None)


def test_takeover_3_the_worker_that_takes_over_does_the_work(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name, store_result=True)
    died(workers, records, job, name)
    attempt = begun(workers, job)
    attempt.check()
    assert "running" == workers.status(job).state
    workers.done(attempt, {"sent": True})
    status = workers.status(job)
    assert ("done", 2, {"sent": True}) == (status.state, status.attempts, status.result)
