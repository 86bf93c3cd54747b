"""What the decorator costs on top of the acquire and the release that it makes."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from redis_locks import Lock, redis_lock
from redis_locks.testing import override_locks

AT_MOST = 15.0
"""Microseconds that it may add on a machine of one's own."""

MOST = 1.3
"""On a slower one: so much of what an acquire and a release take without a server. A view adds
about as much as they do.
"""
CALLS = 200


@redis_lock("account:{account_id}", wait=5)
def work(account_id: int) -> int:
    return account_id


@redis_lock("account:{account_id}", wait=5)
def view(request: HttpRequest, account_id: int) -> HttpResponse | None:
    return None


LOCK = Lock("account:7", wait=5)


def bare() -> None:
    hold = LOCK.acquire()
    if hold:
        hold.release()


def microseconds(call: Callable[[], Any]) -> float:
    # CPU time: others on the machine do not count.
    return min(timeit.repeat(call, timer=time.thread_time, number=CALLS, repeat=5)) / CALLS * 1e6


@pytest.mark.benchmark
@override_locks("granted")
def test_the_decorator_adds_a_few_microseconds_of_python() -> None:
    """No server, so that only Python's time counts; `pytest -m benchmark -s` prints it."""
    request = RequestFactory().get("/")
    calls: dict[str, Callable[[], Any]] = {
        "function": lambda: work(account_id=7),
        "view": lambda: view(request, account_id=7),
    }
    for kind, call in calls.items():
        # In turn, for the machine changes its speed. The least of each: others on it only add.
        turns = [(microseconds(call), microseconds(bare)) for _ in range(7)]
        alone = min(bare for _, bare in turns)
        added = min(locked for locked, _ in turns) - alone
        print(f"{kind}: {added:.1f} us on top of {alone:.1f} for acquire and release")  # noqa: T201
        assert added <= max(AT_MOST, MOST * alone)


def test_the_decorator_asks_the_database_nothing(
    name: str, django_assert_num_queries: Any, db: None
) -> None:
    with django_assert_num_queries(0):
        work(account_id=7)
        view(RequestFactory().get("/"), account_id=7)
