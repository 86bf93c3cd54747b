"""Locked views: `redis_lock` on a view, of whatever kind, and what the view stays."""

from __future__ import annotations

import asyncio

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, Client, RequestFactory
from django.views.decorators.csrf import csrf_exempt
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from redis_locks import Lock, LockNotAvailable, redis_lock
from tests import elsewhere
from tests.django import locked_views
from tests.django.locked_views import LOCKED, aget, coroutine, function, state

pytestmark = pytest.mark.urls(locked_views.__name__)


@pytest.mark.parametrize("kind", LOCKED)
def test_a_view_holds_its_lock_while_it_runs(kind: str, name: str) -> None:
    for response in (Client().get(f"/{kind}/{name}/"), asyncio.run(aget(f"/{kind}/{name}/"))):
        assert (response.status_code, response.content) == (200, b"held")
        assert state(name) == "free"


def test_the_request_of_the_rest_framework_makes_a_view_too(name: str) -> None:
    @redis_lock(name, wait=0)
    def view(self: object, request: Request) -> HttpResponse:
        return HttpResponse()

    with elsewhere.held(Lock(name)), pytest.raises(APIException) as refused:
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
    with elsewhere.held(Lock(name)), pytest.raises(LockNotAvailable):
        Billing().charge()


def test_a_view_keeps_csrf_exempt() -> None:
    exempt = redis_lock("x")(csrf_exempt(function))
    assert exempt.csrf_exempt is True  # type: ignore[attr-defined]
    assert csrf_exempt(redis_lock("x")(function)).csrf_exempt is True  # type: ignore[attr-defined]


def test_the_holder_is_known_by_method_and_path(name: str) -> None:
    seen: list[str | None] = []

    @redis_lock(name)
    def view(request: HttpRequest) -> None:
        with pytest.raises(LockNotAvailable) as raised:
            elsewhere.in_thread(Lock(name, wait=0).__enter__)
        seen.append(raised.value.holder)

    view(RequestFactory().post("/accounts/7/"))
    assert "POST /accounts/7/" in str(seen[0])


def test_an_async_view_called_directly_works_too(name: str) -> None:
    response = asyncio.run(coroutine(AsyncRequestFactory().get("/"), name))
    assert response.content == b"held"
