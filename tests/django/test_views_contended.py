"""What a locked view answers while another party holds its lock."""

from __future__ import annotations

import asyncio

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings

from redis_locks import Lock, LockNotAvailable, redis_lock
from tests import elsewhere
from tests.django import locked_views
from tests.django.locked_views import LOCKED, aget, function

pytestmark = pytest.mark.urls(locked_views.__name__)


@pytest.mark.parametrize("kind", LOCKED)
def test_contention_is_answered_with_423_and_retry_after(kind: str, name: str) -> None:
    with elsewhere.held(Lock(name, lease=2.5, renew=False)):
        responses = Client().get(f"/{kind}/{name}/"), asyncio.run(aget(f"/{kind}/{name}/"))
    for response in responses:
        assert (response.status_code, response.reason_phrase) == (423, "Locked")
        assert int(response["Retry-After"]) in {1, 2, 3}
        assert name not in response.content.decode()


def test_the_status_of_contention_can_be_set(name: str) -> None:
    request = RequestFactory().get("/")
    with (
        elsewhere.held(Lock(name)),
        override_settings(REDIS_LOCKS={"CONNECTION": "default", "CONFLICT_STATUS": 409}),
    ):
        assert function(request, name).status_code == 409

        def view(request: HttpRequest) -> HttpResponse: ...

        response = redis_lock(name, wait=0, conflict_status=503)(view)(request)
    assert (response.status_code, 1 <= int(response["Retry-After"]) <= 10) == (503, True)


def test_a_view_can_raise_or_build_its_own_response(name: str) -> None:
    request = RequestFactory().get("/")

    def view(request: HttpRequest) -> HttpResponse: ...

    def build(error: LockNotAvailable, request: HttpRequest) -> HttpResponse:
        return HttpResponse(f"later, {request.method}", status=418)

    with elsewhere.held(Lock(name)):
        with pytest.raises(LockNotAvailable):
            redis_lock(name, wait=0, on_conflict="raise")(view)(request)
        response = redis_lock(name, wait=0, on_conflict=build)(view)(request)
    assert (response.status_code, response.content) == (418, b"later, GET")
