"""Attempts: their numbers, what ends them, what is remembered and for how long."""

from __future__ import annotations

import pytest

from redis_locks import Lock, LockLost, LockNotHeld, inspection, run_once
from tests.run_once.world import Records, Workers, begun, died
from tests.support import leases
from tests.support.world import PATIENCE, until


def test_attempts_are_numbered_and_their_fencing_tokens_grow(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name, max_attempts=5)
    new = workers.status(job)
    assert ("new", 0, None, None) == (new.state, new.attempts, new.holder, new.last_error)
    seen = []
    for turn in range(5):
        if turn % 2:
            attempt = died(workers, records, job, name)
        else:
            attempt = begun(workers, job)
            workers.fail(attempt, "broken")
        seen.append((attempt.number, attempt.is_last, attempt.fencing_token))
    numbers, last, fences = zip(*seen, strict=True)
    assert (1, 2, 3, 4, 5) == numbers
    assert (False, False, False, False, True) == last
    assert sorted(set(fences)) == list(fences)
    assert workers.acquire(job) is None


def test_an_attempt_is_a_hold_of_the_lock_of_that_name(workers: Workers, name: str) -> None:
    attempt = begun(workers, run_once(name, label="the report"))
    info = inspection.lock(name)
    assert ["the report"] == [holder.label for holder in info.holders]
    assert Lock(name).acquire(wait=0) is None
    workers.done(attempt)
    hold = Lock(name).acquire(wait=0)
    assert hold.fencing_token > attempt.fencing_token
    hold.release()


def test_a_job_whose_lock_somebody_else_holds_is_not_begun(
    workers: Workers, records: Records, name: str
) -> None:
    hold = Lock(name).acquire(wait=0)
    assert workers.acquire(run_once(name)) is None
    assert {} == records.of(name)
    hold.release()


def test_an_attempt_released_without_a_verdict_counts_as_dead(workers: Workers, name: str) -> None:
    job = run_once(name)
    workers.release(begun(workers, job))
    status = workers.status(job)
    assert ("failed", 1, None) == (status.state, status.attempts, status.last_error)
    second = begun(workers, job)
    assert 2 == second.number
    workers.done(second)


def test_a_waiter_takes_over_when_the_lease_of_a_dead_worker_ends(
    workers: Workers, name: str
) -> None:
    dead = begun(workers, run_once(name, lease=0.3, renew=False))
    attempt = workers.start(workers.acquire, run_once(name, wait=PATIENCE)).result(PATIENCE)
    assert 2 == attempt.number
    assert dead.is_lost
    workers.done(attempt)


@pytest.mark.parametrize("taken_over", [True, False])
def test_whoever_lost_the_lock_cannot_say_that_the_job_is_done(
    workers: Workers, records: Records, name: str, *, taken_over: bool
) -> None:
    job = run_once(name)
    slow = begun(workers, job)
    records.let_die(name)
    successor = begun(workers, job) if taken_over else None
    with pytest.raises(LockLost):
        workers.done(slow)
    assert slow.is_lost
    assert ("running" if taken_over else "failed") == workers.status(job).state
    if successor:
        successor.check()
        workers.done(successor)


def test_a_verdict_can_be_given_once(workers: Workers, records: Records, name: str) -> None:
    attempt = begun(workers, run_once(name))
    workers.fail(attempt, "broken")
    with pytest.raises(LockNotHeld):
        workers.done(attempt)
    with pytest.raises(LockNotHeld):
        workers.fail(attempt, "again")
    assert "broken" == records.of(name)["outcome"]


def test_a_job_that_is_done_starts_anew_when_that_is_forgotten(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name, done_ttl=0.05)
    first = begun(workers, job)
    workers.done(first)
    until(lambda: not records.of(name))
    second = begun(workers, job)
    assert 1 == second.number
    assert second.fencing_token > first.fencing_token
    workers.done(second)


def test_the_count_of_attempts_outlives_the_lease_by_done_ttl(
    workers: Workers, records: Records, name: str
) -> None:
    attempt = begun(workers, run_once(name, done_ttl=100, lease=50, renew=False))
    assert 145 < records.kept(name) <= 150
    workers.extend(attempt, 200)
    assert 295 < records.kept(name) <= 300
    workers.fail(attempt, "broken")
    assert 95 < records.kept(name) <= 100


def test_renewal_keeps_both_the_lease_and_the_count_of_attempts(
    workers: Workers, records: Records, name: str
) -> None:
    attempt = begun(workers, run_once(name, lease=1.5, done_ttl=0.01))
    first = records.kept_until(name)
    until(lambda: records.kept_until(name) > first + 1.5)
    attempt.check()
    assert "1" == records.of(name)["attempt"]
    workers.done(attempt)


def test_holds_and_attempts_are_renewed_side_by_side(workers: Workers, name: str) -> None:
    hold = workers.acquire(Lock(f"{name}:lock", lease=1.5))
    attempt = begun(workers, run_once(name, lease=1.5))
    for each in (hold, attempt):
        leases.until_renewed(each, by=1)
    workers.release(hold)
    workers.done(attempt)


def test_done_can_be_recorded_though_the_record_was_lost(
    workers: Workers, records: Records, name: str
) -> None:
    job = run_once(name)
    died(workers, records, job, name)
    attempt = begun(workers, job)
    records.forget(name)
    workers.done(attempt)
    status = workers.status(job)
    assert ("done", 2) == (status.state, status.attempts)


def test_a_greater_allotment_tries_an_exhausted_job_again(workers: Workers, name: str) -> None:
    workers.fail(begun(workers, run_once(name, max_attempts=1)), "broken")
    assert workers.acquire(run_once(name, max_attempts=1)) is None
    attempt = begun(workers, run_once(name, max_attempts=2))
    assert 2 == attempt.number
    workers.done(attempt)


def test_a_wait_that_ends_leaves_nothing_in_the_queue(
    workers: Workers, records: Records, name: str
) -> None:
    attempt = begun(workers, run_once(name))
    assert workers.acquire(run_once(name), wait=0.05) is None
    assert {"holder", "index"} == records.left(name)
    workers.done(attempt)
