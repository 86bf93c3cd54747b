"""Errors of jobs: how a call fails, what is recorded of that, and what the errors tell."""

from __future__ import annotations

import pickle

import pytest

from redis_locks import AlreadyDone, AttemptsExhausted, LockBackendError, LockError, run_once
from tests.faults.proxy import Proxy
from tests.run_once.world import Records, Workers, begun


def test_an_error_is_raised_and_the_next_call_is_the_next_attempt(
    workers: Workers, records: Records, name: str
) -> None:
    errors = [ValueError("first"), KeyError("second")]

    def work() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    once = workers.function(run_once(name, store_result=True), work)
    with pytest.raises(ValueError, match="first"):
        workers.call(once)
    with pytest.raises(KeyError, match="second"):
        workers.call(once)
    assert "done" == workers.call(once)
    assert "3" == records.of(name)["attempt"]


def test_after_the_last_attempt_a_call_raises_how_that_ended(workers: Workers, name: str) -> None:
    def work() -> None:
        raise ValueError("no paper")

    once = workers.function(run_once(name, max_attempts=2), work)
    for _ in range(2):
        with pytest.raises(ValueError, match="no paper"):
            workers.call(once)
    with pytest.raises(AttemptsExhausted, match=r"2 times .* ValueError: no paper") as caught:
        workers.call(once)
    assert (name, 2, "ValueError: no paper") == (
        caught.value.name,
        caught.value.attempts,
        caught.value.last_error,
    )


def test_a_nested_job_that_is_done_is_not_mistaken_for_the_outer_one(
    workers: Workers, name: str
) -> None:
    def work() -> None:
        raise AlreadyDone("inner")

    once = workers.function(run_once(name), work)
    with pytest.raises(AlreadyDone, match="inner"):
        workers.call(once)
    assert "failed" == workers.status(run_once(name)).state


def test_an_error_without_a_text_still_ends_the_attempt(
    workers: Workers, records: Records, name: str
) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def work() -> None:
        raise Odd

    once = workers.function(run_once(name), work)
    with pytest.raises(Odd):
        workers.call(once)
    assert "Odd: (its text is not available: RuntimeError)" == records.of(name)["outcome"]


def test_an_error_of_two_lines_with_a_lone_surrogate_still_ends_the_attempt(
    workers: Workers, records: Records, name: str
) -> None:
    workers.fail(begun(workers, run_once(name)), "bad \udc80\n name")
    assert "bad ? name" == records.of(name)["outcome"]


def test_the_server_may_be_chosen_and_one_that_is_not_there_is_an_error(name: str) -> None:
    job = run_once(name, using="unix:///nonexistent/nobody.sock")
    with pytest.raises(LockBackendError, match="cannot be reached"):
        job.acquire()
    with pytest.raises(LockBackendError, match=r"does not answer|cannot be reached"):
        job.status()


def test_the_errors_pickle_with_what_they_know() -> None:
    done = pickle.loads(pickle.dumps(AlreadyDone("is done", "x", 2, {"a": 1})))  # noqa: S301
    assert ("is done", "x", 2, {"a": 1}) == (str(done), done.name, done.attempt, done.result)
    spent = pickle.loads(pickle.dumps(AttemptsExhausted("is over", "x", 3, "broken")))  # noqa: S301
    assert ("is over", "x", 3, "broken") == (
        str(spent),
        spent.name,
        spent.attempts,
        spent.last_error,
    )
    assert isinstance(done, LockError)
    assert isinstance(spent, LockError)


def test_looking_at_an_attempt_does_not_change_what_done_says(
    workers: Workers, name: str, proxy: Proxy
) -> None:
    """It was recorded as done, and nobody heard of that until the lease had ended."""
    job = run_once(name, using=proxy.url, lease=0.5)
    attempt = begun(workers, job)
    proxy.lose(1, losses=1_000_000)
    with pytest.raises(LockBackendError) as found:
        workers.done(attempt)
    proxy.lose(0)
    assert found.value.may_be_done
    assert (True, 0.0) == (attempt.is_lost, attempt.remaining)
    assert "done" == workers.status(job).state
    workers.done(attempt)
    assert not attempt.is_lost
