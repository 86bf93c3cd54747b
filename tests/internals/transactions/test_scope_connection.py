"""A lock looks at the connection that Django has for this thread or task, however it finds it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from redis_locks.locks import scope


def both() -> list[Any]:
    return [scope._connection("default"), connections["default"]]


def test_it_is_this_thread_s() -> None:
    def in_another() -> None:
        first = scope._connection("default")  # made then
        assert [first, first] == both()
        del connections["default"]
        ours, theirs = both()
        assert ours is theirs is not first
        ours.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(in_another).result()
    ours, theirs = both()
    assert ours is theirs


def test_in_a_task_it_is_that_task_s() -> None:
    async def task() -> list[Any]:
        return both()

    ours, theirs = asyncio.run(task())
    assert ours is theirs is not connections["default"]


def test_it_is_found_the_short_way_and_without_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = connections["default"]
    with monkeypatch.context() as patched:
        patched.setattr(type(connections), "__getitem__", None)
        assert scope._connection("default") is there
    monkeypatch.setattr(scope, "_local", None)
    assert scope._connection("default") is there


def test_one_that_is_not_configured_is_an_error() -> None:
    with pytest.raises(ConnectionDoesNotExist, match="nowhere"):
        scope._connection("nowhere")
