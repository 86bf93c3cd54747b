"""`run_once` on functions, in blocks, and its arguments."""

from __future__ import annotations

import functools
import inspect
import pickle
from typing import Any

import pytest

from redis_locks import (
    AlreadyDone,
    Attempt,
    AttemptsExhausted,
    Lock,
    LockBackendError,
    LockError,
    LockLost,
    LockNotAvailable,
    LockNotHeld,
    LockTimeout,
    run_once,
)
from redis_locks.lines import MOST_PASSED
from tests.contract.world import PATIENCE
from tests.run_once.world import AsyncWorkers, BlockingWorkers, Records, Workers, begun


def test_a_call_does_the_job_and_later_calls_get_its_result(
    workers: Workers, records: Records, name: str
) -> None:
    calls = []

    def report(month: int, *, year: int = 2026) -> dict[str, int]:
        calls.append(month)
        return {"month": month, "year": year}

    once = workers.function(run_once(f"{name}:{{month}}", store_result=True), report)
    assert {"month": 5, "year": 2026} == workers.call(once, 5)
    assert {"month": 5, "year": 2026} == workers.call(once, month=5, year=1999)
    assert {"month": 6, "year": 2026} == workers.call(once, 6)
    assert [5, 6] == calls


def test_a_result_that_is_not_stored_is_none_for_later_calls(
    workers: Workers, records: Records, name: str
) -> None:
    once = workers.function(run_once(name), lambda: 7)
    assert [7, None, None] == [workers.call(once) for _ in range(3)]


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": [1, None, True, "ü€\n b"]}])
def test_any_json_comes_back_as_it_was(
    workers: Workers, records: Records, name: str, result: Any
) -> None:
    once = workers.function(run_once(name, store_result=True), lambda: result)
    assert [result, result] == [workers.call(once), workers.call(once)]


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


def test_after_the_last_attempt_a_call_raises_how_that_ended(
    workers: Workers, records: Records, name: str
) -> None:
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


def test_a_call_while_somebody_is_at_it_raises_who_and_for_how_long(
    workers: Workers, records: Records, name: str
) -> None:
    attempt = begun(workers, run_once(name, label="the other one", lease=30))
    once = workers.function(run_once(name), lambda: None)
    with pytest.raises(LockNotAvailable, match="the other one") as caught:
        workers.call(once)
    assert caught.value.retry_after is not None
    assert 20 < caught.value.retry_after <= 30
    assert not isinstance(caught.value, LockTimeout)
    patient = workers.function(run_once(name, wait=0.05), lambda: None)
    with pytest.raises(LockTimeout, match=r"within 0\.05 s"):
        workers.call(patient)
    workers.done(attempt)


def test_a_call_may_be_skipped_while_somebody_is_at_it(
    workers: Workers, records: Records, name: str
) -> None:
    attempt = begun(workers, run_once(name))
    once = workers.function(run_once(name, on_conflict="skip"), lambda: 7)
    assert workers.call(once) is None
    workers.fail(attempt, "broken")
    assert 7 == workers.call(once)


def test_a_call_that_waits_gets_the_result_of_whoever_did_it(
    workers: Workers, records: Records, name: str
) -> None:
    attempt = begun(workers, run_once(name, store_result=True))
    once = workers.function(run_once(name, wait=PATIENCE, store_result=True), lambda: "mine")
    waiting = workers.start(workers.call, once)
    records.until_waiters(name, 1)
    workers.done(attempt, "theirs")
    assert "theirs" == waiting.result(PATIENCE)


def test_a_result_that_json_cannot_hold_fails_the_attempt(
    workers: Workers, records: Records, name: str
) -> None:
    once = workers.function(run_once(name, store_result=True), lambda: {1, 2})
    with pytest.raises(TypeError, match=f"result of job '{name}' cannot be stored as JSON: .*set"):
        workers.call(once)
    assert "failed" == workers.status(run_once(name)).state
    nan = workers.function(run_once(name, store_result=True), lambda: float("nan"))
    with pytest.raises(ValueError, match="cannot be stored as JSON"):
        workers.call(nan)


def test_losing_the_lock_in_a_call_raises_and_nothing_is_recorded(
    workers: Workers, records: Records, name: str
) -> None:
    once = workers.function(run_once(name), lambda: records.let_die(name))
    with pytest.raises(LockLost) as caught:
        workers.call(once)
    assert not hasattr(caught.value, "__notes__")
    assert "failed" == workers.status(run_once(name)).state


def test_the_function_can_ask_for_its_attempt(
    workers: Workers, records: Records, name: str
) -> None:
    def inner() -> tuple[str, int]:
        return Attempt.current().name, Attempt.current().number

    def outer() -> list[Any]:
        nested = run_once(f"{name}:inner")(inner)()
        return [nested, Attempt.current().name, Attempt.current().fencing_token]

    once = workers.function(run_once(name), outer)
    nested, own_name, fence = workers.call(once)
    assert ((f"{name}:inner", 1), name) == (nested, own_name)
    assert fence + MOST_PASSED == int(records.client.get(records.keys(name).fence))
    with pytest.raises(LockNotHeld, match="no function decorated with run_once"):
        Attempt.current()


def test_a_nested_job_that_is_done_is_not_mistaken_for_the_outer_one(
    workers: Workers, records: Records, name: str
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
    assert "Odd: (its text cannot be had: RuntimeError)" == records.of(name)["outcome"]


def test_a_lone_surrogate_in_an_error_still_ends_the_attempt(
    workers: Workers, records: Records, name: str
) -> None:
    workers.fail(begun(workers, run_once(name)), "bad \udc80 name")
    assert "bad ? name" == records.of(name)["outcome"]


def test_a_block_is_an_attempt_and_its_end_the_verdict(records: Records, name: str) -> None:
    job = run_once(name, store_result=True)
    with pytest.raises(ValueError, match="broken"), job:
        raise ValueError("broken")
    with job as attempt:
        assert 2 == attempt.number
        attempt.done("second")
    with pytest.raises(AlreadyDone) as caught, job:
        pytest.fail("the body must not run")
    assert ("second", 2, name) == (caught.value.result, caught.value.attempt, caught.value.name)
    assert job.acquire() is None


def test_a_block_without_a_verdict_is_done(records: Records, name: str) -> None:
    with run_once(name):
        pass
    assert "done" == run_once(name).status().state


def test_an_async_block_is_an_attempt(records: Records, name: str) -> None:
    job = run_once(name, max_attempts=2)

    async def work(error: Exception | None) -> int:
        async with job as attempt:
            if error:
                raise error
            return attempt.number

    tasks = AsyncWorkers()
    with pytest.raises(ValueError, match="broken"):
        tasks.run(work(ValueError("broken")))
    assert 2 == tasks.run(work(None))
    with pytest.raises(AlreadyDone):
        tasks.run(work(None))
    tasks.close()


def test_the_block_of_an_attempt_ends_it(records: Records, name: str) -> None:
    job = run_once(name)
    with pytest.raises(ValueError, match="broken"), begun(BlockingWorkers(), job):
        raise ValueError("broken")
    assert "ValueError: broken" == job.status().last_error


def test_an_attempt_is_neither_shared_nor_committed(records: Records, name: str) -> None:
    attempt = run_once(name).acquire()
    assert attempt is not None
    with pytest.raises(TypeError, match="cannot be shared"):
        attempt.downgrade()
    with pytest.raises(TypeError, match="not with commit"):
        attempt.commit(records.client.pipeline())
    attempt.upgrade()
    attempt.done()


def test_a_result_needs_store_result(records: Records, name: str) -> None:
    attempt = run_once(name).acquire()
    assert attempt is not None
    with pytest.raises(ValueError, match="store_result=True"):
        attempt.done(7)
    attempt.done()


def test_a_method_and_a_function_without_a_name_are_named_as_for_a_lock(
    records: Records, name: str
) -> None:
    class Importer:
        @run_once(f"{name}:{{number}}", store_result=True)
        def load(self, number: int) -> int:
            return number

    assert [4, 4] == [Importer().load(4), Importer().load(4)]
    assert "done" == run_once(f"{name}:4").status().state
    by_hand = run_once(lambda number: f"{name}:by-hand-{number}")(lambda number: None)
    by_hand(5)
    assert "done" == run_once(f"{name}:by-hand-5").status().state


def test_the_function_keeps_its_name_and_signature() -> None:
    def load(number: int, *, fast: bool = False) -> int:
        """Load."""
        return number

    once = run_once("x:{number}")(load)
    assert ("load", "Load.") == (once.__name__, once.__doc__)
    assert inspect.signature(load) == inspect.signature(once)


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


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_attempts": 0}, ValueError, r"max_attempts must be from 1 .*, not 0"),
        ({"max_attempts": True}, TypeError, r"max_attempts must be a whole number .* not True"),
        ({"max_attempts": 2.0}, TypeError, r"max_attempts must be a whole number .* not 2\.0"),
        ({"done_ttl": 0}, ValueError, r"done_ttl must be between 0\.01 .* not 0"),
        ({"done_ttl": None}, TypeError, r"done_ttl must be a number of seconds .* not None"),
        ({"done_ttl": float("inf")}, ValueError, r"done_ttl must be a finite number"),
        ({"store_result": 1}, TypeError, r"store_result must be True or False, not 1"),
        ({"wait": -1}, ValueError, r"wait must be 0 .* not -1"),
        ({"lease": 0}, ValueError, r"lease must be between .* not 0"),
        ({"renew": None}, TypeError, r"renew must be True or False, not None"),
        ({"using": 3}, TypeError, r"using must be a string or None, not 3"),
        ({"label": b"x"}, TypeError, r"label must be a string or None, not b'x'"),
        ({"on_conflict": "wait"}, ValueError, r"on_conflict must be 'raise' or 'skip', not 'wait'"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        run_once("x", **options)


def test_a_template_that_does_not_fit_is_refused_when_the_function_is_decorated() -> None:
    with pytest.raises(ValueError, match=r"\{order\} is not a parameter"):
        run_once("job:{order}")(lambda number: None)


def test_a_job_has_one_name() -> None:
    once = run_once(lambda: ["a", "b"])(lambda: None)
    with pytest.raises(ValueError, match="a job has one name"):
        once()


def test_a_block_needs_a_name() -> None:
    with pytest.raises(TypeError, match=r"a block needs run_once\('name'\)"), run_once():
        pass


def test_what_is_no_function_cannot_be_decorated() -> None:
    class Task:
        def enqueue(self) -> None: ...

    def items():
        yield 1

    for odd in (Task(), items, Lock, classmethod(len), 5):
        with pytest.raises(TypeError, match="run_once cannot decorate"):
            run_once("x")(odd)  # type: ignore[arg-type]


def test_parentheses_may_not_be_forgotten() -> None:
    source = "@run_once\ndef job(): ..."
    with pytest.raises(TypeError, match="needs parentheses"):
        exec(source, {"run_once": run_once, "__name__": "nobody"})  # noqa: S102


def test_a_sync_function_that_returns_an_awaitable_is_not_done(records: Records, name: str) -> None:
    async def work(number: int) -> int:
        return number

    once = run_once(name)(functools.partial(lambda: work(1)))
    with pytest.raises(TypeError, match="returned an awaitable"):
        once()
    assert "failed" == run_once(name).status().state


def double(number: int) -> int:
    return 2 * number


def test_a_django_task_does_its_job_once(records: Records, name: str) -> None:
    tasks = pytest.importorskip("django.tasks")
    once = run_once(name + ":{number}", store_result=True)(double)
    send = tasks.task(once)
    assert 8 == send.enqueue(4).return_value
    assert [8, 8] == [send.enqueue(4).return_value, send.enqueue(number=4).return_value]
    assert 1 == run_once(f"{name}:4").status().attempts
