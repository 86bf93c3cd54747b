"""Results of jobs: which are stored, come back as they were, or cannot be stored."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from redis_locks import run_once
from tests.run_once.world import Records, Workers


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


def test_a_result_needs_store_result(records: Records, name: str) -> None:
    attempt = run_once(name).acquire()
    assert attempt is not None
    with pytest.raises(ValueError, match="store_result=True"):
        attempt.done(7)
    attempt.done()


def test_a_sync_function_that_returns_an_awaitable_is_not_done(records: Records, name: str) -> None:
    async def work(number: int) -> int:
        return number

    once = run_once(name)(functools.partial(lambda: work(1)))
    with pytest.raises(TypeError, match="returned an awaitable"):
        once()
    assert "failed" == run_once(name).status().state
