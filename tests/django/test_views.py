"""Locked views: `redis_lock` on any kind of view, its answer to others, and how long it holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory, override_settings
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from redis_locks import Lock, LockNotAvailable, redis_lock
from tests import elsewhere
from tests.django import locked_views
from tests.django.locked_views import BY_THEMSELVES, run, state
from tests.support.parties import held
from tests.support.retries import retry_after
from tests.support.world import Observer, Threads

pytestmark = pytest.mark.urls(locked_views.__name__)


async def aget(url: str) -> Any:
    return await AsyncClient().get(url)


@pytest.mark.parametrize("kind", BY_THEMSELVES | locked_views.apis())
def test_a_view_holds_its_lock_while_it_runs_and_answers_contention_with_423(
    kind: str, name: str
) -> None:
    url = f"/{kind}/{name}/"
    for response in (Client().get(url), asyncio.run(aget(url))):
        assert (response.status_code, response.content) == (200, b"held")
        assert state(name) == "free"
    with held(name, lease=2.5):
        responses = Client().get(url), asyncio.run(aget(url))
    for response in responses:
        assert (response.status_code, response.reason_phrase) == (423, "Locked")
        assert int(response["Retry-After"]) in {1, 2, 3}
        assert name not in response.content.decode()


def test_the_request_of_the_rest_framework_makes_a_view_too(name: str) -> None:
    @redis_lock(name, wait=0)
    def view(self: object, request: Request) -> HttpResponse:
        return HttpResponse()

    with held(name), pytest.raises(APIException) as refused:
        view(object(), Request(RequestFactory().post("/")))
    assert refused.value.status_code == 423


@pytest.mark.parametrize("method", ["POST", "HEAD"])
def test_an_object_that_keeps_a_request_is_no_view(method: str, name: str) -> None:
    class Billing:
        def __init__(self) -> None:
            self._request = RequestFactory().generic(method, "/")

        @redis_lock(name, wait=0)
        def charge(self) -> str:
            return state(name)

    assert Billing().charge() == "held"
    with held(name), pytest.raises(LockNotAvailable):
        Billing().charge()


def test_the_holder_is_known_by_method_and_path(name: str) -> None:
    @redis_lock(name)
    def view(request: HttpRequest) -> str | None:
        with pytest.raises(LockNotAvailable) as raised:
            elsewhere.in_thread(Lock(name, wait=0).__enter__)
        return raised.value.holder

    assert "POST /accounts/7/" in str(view(RequestFactory().post("/accounts/7/")))


def test_contention_has_a_status_or_a_response_of_ones_own_or_is_raised(name: str) -> None:
    def build(error: LockNotAvailable, request: HttpRequest, name: str) -> HttpResponse:
        return HttpResponse(f"later, {request.method}", status=418)

    def ask(**options: Any) -> Any:
        return redis_lock(name, wait=0, **options)(run)(RequestFactory().get("/"), name)

    with held(name):
        with override_settings(REDIS_LOCKS={"CONFLICT_STATUS": 409}):
            assert (409, 503) == (ask().status_code, ask(conflict_status=503).status_code)
        with pytest.raises(LockNotAvailable):
            ask(on_conflict="raise")
        response = ask(on_conflict=build)
    assert (response.status_code, response.content) == (418, b"later, GET")


@pytest.mark.parametrize("kind", ["function", "coroutine", "mixin", "async-mixin"])
def test_retry_after_counts_the_lease_of_the_holder_and_of_each_waiter(
    kind: str, name: str, server_side: Observer
) -> None:
    world = Threads()
    lock = Lock(name, wait=20)
    with held(name, lease=5):
        waiters = [world.start(world.block, lock, lambda hold: None) for _ in range(3)]
        server_side.until_waiters(name, 3)
        response = Client().get(f"/{kind}/{name}/")
        # About 5 s, four times over.
        assert 14 <= int(response["Retry-After"]) <= 20
    for waiter in waiters:
        waiter.result(20)


@pytest.mark.parametrize(
    ("lease_left", "waiting", "expected"), [(2.1, None, 3), (2.5, 3, 10), (None, 4, 1), (10, 9, 60)]
)
def test_retry_after_is_whole_seconds_within_bounds(
    lease_left: float | None, waiting: int | None, expected: int
) -> None:
    error = LockNotAvailable("held", "x", None, lease_left)
    error.waiting = waiting
    assert retry_after(error) == expected
