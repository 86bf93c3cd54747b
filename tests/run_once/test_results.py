"""Results of jobs: which are stored, come back as they were, or cannot be stored."""

from __future__ import annotations

import functools
import json
import math
import pickle
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from redis_locks import LockLost, ResultNotStored, run_once
from redis_locks.inspection import force_release
from tests.run_once.world import Workers


def test_a_result_that_is_not_stored_is_none_for_later_calls(workers: Workers, name: str) -> None:
    once = workers.function(run_once(name), lambda: 7)
    assert [7, None, None] == [workers.call(once) for _ in range(3)]


LARGEST = "x" * ((1 << 20) - 2)


@pytest.mark.parametrize(
    "result",
    [None, 0, "", [], {"a": [1, None, True, "ü€\n b"]}, pytest.param(LARGEST, id="largest")],
)
def test_any_json_comes_back_as_it_was(workers: Workers, name: str, result: Any) -> None:
    once = workers.function(run_once(name, store_result=True), lambda: result)
    assert [result, result] == [workers.call(once), workers.call(once)]


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        ({1: (1, 2)}, {"1": [1, 2]}),
        (Decimal("12.50"), "12.50"),
        ([date(2026, 11, 25)], ["2026-11-25"]),
        (
            datetime(2026, 11, 25, 6, tzinfo=timezone(timedelta(hours=1))),
            "2026-11-25T06:00:00+01:00",
        ),
    ],
)
def test_the_first_caller_gets_what_later_callers_get(
    workers: Workers, name: str, result: Any, stored: Any
) -> None:
    once = workers.function(run_once(name, store_result=True), lambda: result)
    assert [stored, stored] == [workers.call(once), workers.call(once)]
    assert stored == workers.status(run_once(name)).result


def test_not_a_number_comes_back_as_it_was(workers: Workers, name: str) -> None:
    once = workers.function(run_once(name, store_result=True), lambda: math.nan)
    assert all(math.isnan(workers.call(once)) for _ in range(2))


UNFIT = {
    "no JSON": ({1, 2}, "cannot be stored as JSON: .*set"),
    "circular": (circle := [], "cannot be stored as JSON: Circular"),
    "large": ("x" * (1 << 20), "takes 1,048,578 bytes as JSON, and at most 1,048,576"),
}
circle.append(circle)


@pytest.mark.parametrize("unfit", UNFIT)
def test_a_job_whose_result_cannot_be_stored_is_done_and_says_so_once(
    workers: Workers, name: str, unfit: str
) -> None:
    result, why = UNFIT[unfit]
    calls = []

    def work() -> Any:
        calls.append(1)
        return result

    once = workers.function(run_once(name, store_result=True), work)
    with pytest.raises(ResultNotStored, match=f"Job '{name}' is done .* {why}") as caught:
        workers.call(once)
    assert name == pickle.loads(pickle.dumps(caught.value)).name  # noqa: S301 - our own
    assert [None, None] == [workers.call(once), workers.call(once)]
    assert ([1], "done") == (calls, workers.status(run_once(name)).state)


def test_a_lost_lock_says_so_and_not_that_its_result_does_not_fit(
    workers: Workers, name: str
) -> None:
    def work() -> set[int]:
        force_release(name)
        return {1}

    once = workers.function(run_once(name, store_result=True), work)
    with pytest.raises(LockLost):
        workers.call(once)
    assert "failed" == workers.status(run_once(name)).state


class Encoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        return {"set": sorted(o)} if isinstance(o, set) else super().default(o)


class Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__(object_hook=lambda found: set(found["set"]) if "set" in found else found)


def test_a_project_may_bring_its_own_encoder_and_decoder(workers: Workers, name: str) -> None:
    job = run_once(name, store_result=True, encoder=Encoder, decoder=Decoder)
    once = workers.function(job, lambda: {1, 2})
    assert [{1, 2}, {1, 2}] == [workers.call(once), workers.call(once)]
    assert {1, 2} == workers.status(job).result
    with pytest.raises(ResultNotStored, match="complex"):
        workers.call(
            workers.function(run_once(f"{name}:2", store_result=True, encoder=Encoder), lambda: 1j)
        )


def test_a_result_needs_store_result_but_the_job_is_done(name: str) -> None:
    with pytest.raises(ResultNotStored, match="store_result=True"), run_once(name) as attempt:
        attempt.done(7)
    assert "done" == run_once(name).status().state


def test_a_sync_function_that_returns_an_awaitable_is_not_done(name: str) -> None:
    async def work(number: int) -> int:
        return number

    once = run_once(name)(functools.partial(lambda: work(1)))
    with pytest.raises(TypeError, match="returned an awaitable"):
        once()
    assert "failed" == run_once(name).status().state
