"""`run_once` on functions: what a call does, returns or raises, while others do the job, too."""

from __future__ import annotations

import asyncio
import gc
import inspect
from typing import Any
from weakref import ref

import pytest

from redis_locks import Attempt, LockNotAvailable, LockNotHeld, LockTimeout, run_once
from tests.run_once.world import Records, Workers, begun
from tests.support import stored
from tests.support.world import PATIENCE


def test_a_call_does_the_job_and_later_calls_get_its_result(workers: Workers, name: str) -> None:
    calls = []

    def report(month: int, *, year: int = 2026) -> dict[str, int]:
        calls.append(month)
        return {"month": month, "year": year}

    once = workers.function(run_once(f"{name}:{{month}}", store_result=True), report)
    assert {"month": 5, "year": 2026} == workers.call(once, 5)
    assert {"month": 5, "year": 2026} == workers.call(once, month=5, year=1999)
    assert {"month": 6, "year": 2026} == workers.call(once, 6)
    assert [5, 6] == calls


def test_a_call_while_somebody_is_at_it_raises_who_and_for_how_long(
    workers: Workers, name: str
) -> None:
    attempt = begun(workers, run_once(name, label="the other one", lease=30))
    once = workers.function(run_once(name), lambda: None)
    with pytest.raises(LockNotAvailable, match="the other one") as caught:
        workers.call(once)
    assert 20 < caught.value.retry_after <= 30
    assert not isinstance(caught.value, LockTimeout)
    patient = workers.function(run_once(name, wait=0.05), lambda: None)
    with pytest.raises(LockTimeout, match=r"within 0\.05 s"):
        workers.call(patient)
    workers.done(attempt)


def test_a_call_may_be_skipped_while_somebody_is_at_it(workers: Workers, name: str) -> None:
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


def test_the_function_can_ask_for_its_attempt(
    workers: Workers, records: Records, name: str
) -> None:
    def current() -> tuple[str, int, int]:
        return Attempt.current().name, Attempt.current().number, Attempt.current().fencing_token

    once = workers.function(run_once(name), current)
    own_name, number, fence = workers.call(once)
    assert (name, 1) == (own_name, number)
    assert fence == stored.fence(records.client, records.keys(name).lock)
    with pytest.raises(LockNotHeld, match="no function decorated with run_once"):
        Attempt.current()


def test_the_attempt_of_a_nested_call_is_the_current_one_until_it_returns(name: str) -> None:
    @run_once(f"{name}:inner")
    def inner() -> str:
        return Attempt.current().name

    @run_once(name)
    def outer() -> list[Any]:
        return [inner(), Attempt.current().name]

    @run_once(f"{name}:async:inner")
    async def ainner() -> str:
        return Attempt.current().name

    @run_once(f"{name}:async")
    async def aouter() -> list[Any]:
        return [await ainner(), Attempt.current().name]

    assert [f"{name}:inner", name] == outer()
    assert [f"{name}:async:inner", f"{name}:async"] == asyncio.run(aouter())


def test_an_attempt_is_freed_as_its_call_ends(workers: Workers, name: str) -> None:
    """No collection is needed: a worker may have switched that off."""
    gc.collect()
    gc.disable()
    try:
        attempt = workers.call(workers.function(run_once(name), lambda: ref(Attempt.current())))
        assert attempt() is None
    finally:
        gc.enable()


def test_a_method_and_a_function_without_a_name_are_named_as_for_a_lock(name: str) -> None:
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


def double(number: int) -> int:
    return 2 * number


def test_a_django_task_does_its_job_once(name: str) -> None:
    tasks = pytest.importorskip("django.tasks")
    once = run_once(name + ":{number}", store_result=True)(double)
    send = tasks.task(once)
    assert 8 == send.enqueue(4).return_value
    assert [8, 8] == [send.enqueue(4).return_value, send.enqueue(number=4).return_value]
    assert 1 == run_once(f"{name}:4").status().attempts
