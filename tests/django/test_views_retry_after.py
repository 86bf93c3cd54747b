"""Retry-After: when a locked view, by its holder's lease and its queue, may be free."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from redis_locks import Lock, LockBackendError, LockNotAvailable, inspection, redis_lock
from tests import elsewhere
from tests.django import locked_views
from tests.django.locked_views import LOCKED
from tests.support.retries import retry_after
from tests.support.world import Observer, Threads

pytestmark = pytest.mark.urls(locked_views.__name__)


@pytest.mark.parametrize("kind", LOCKED)
def test_retry_after_counts_the_lease_of_the_holder_and_of_each_waiter(
    kind: str, name: str, server_side: Observer
) -> None:
    world = Threads()
    lock = Lock(name, wait=20)
    with elsewhere.held(Lock(name, lease=5, renew=False)):
        waiters = [world.start(world.block, lock, lambda hold: None) for _ in range(3)]
        server_side.until_waiters(name, 3)
        response = Client().get(f"/{kind}/{name}/")
        # About 5 s, four times over.
        assert 14 <= int(response["Retry-After"]) <= 20
    for waiter in waiters:
        waiter.result(20)


@pytest.mark.parametrize(
    ("lease_left", "waiting", "expected"),
    [
        (2.1, 0, 3),
        (2.1, None, 3),
        (2.5, 3, 10),
        (None, 4, 1),
        (0.0, 4, 1),
        (0.01, 1, 1),
        (10, 9, 60),
    ],
)
def test_retry_after_is_whole_seconds_within_bounds(
    lease_left: float | None, waiting: int | None, expected: int
) -> None:
    error = LockNotAvailable("held", "x", None, lease_left)
    error.waiting = waiting
    assert retry_after(error) == expected


def test_retry_after_of_a_set_of_locks_counts_its_longest_queue(
    name: str, server_side: Observer
) -> None:
    @redis_lock(f"{name}:free", name, wait=0)
    def view(request: HttpRequest) -> HttpResponse: ...

    world = Threads()
    with elsewhere.held(Lock(name, lease=5, renew=False)):
        waiter = world.start(world.block, Lock(name, wait=20), lambda hold: None)
        server_side.until_waiters(name, 1)
        response = view(RequestFactory().get("/"))
    assert (response.status_code, 7 <= int(response["Retry-After"]) <= 10) == (423, True)
    waiter.result(20)


def test_without_an_answer_about_the_queue_retry_after_is_the_holder_s_lease(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_args: object, **_kwargs: object) -> None:
        raise LockBackendError("gone")

    monkeypatch.setattr(inspection, "locks", unreachable)
    monkeypatch.setattr(inspection, "alocks", unreachable)
    with elsewhere.held(Lock(name, lease=2.5, renew=False)):
        for kind in ("function", "coroutine", "mixin", "async-mixin"):
            response = Client().get(f"/{kind}/{name}/")
            assert (response.status_code, int(response["Retry-After"]) <= 3) == (423, True)
