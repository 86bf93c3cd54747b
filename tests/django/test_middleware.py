"""request_deadline: one deadline for all that a request waits for, sync and async."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, modify_settings, override_settings
from django.urls import path

from redis_locks import redis_lock
from redis_locks.testing import held
from tests.support.timings import bounded


def sync_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(bounded(None)))


async def async_view(request: HttpRequest) -> HttpResponse:
    here, there = bounded(None), await sync_to_async(bounded)(None)
    return HttpResponse(str(None if here is None or there is None else max(here, there)))


@redis_lock("{name}", wait=60)
def locked(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse()


urlpatterns = [
    path("sync/", sync_view),
    path("async/", async_view),
    path("locked/<str:name>/", locked),
]
MIDDLEWARE = {"prepend": "redis_locks.middleware.request_deadline"}
pytestmark = pytest.mark.urls(__name__)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("in_loop", [False, True])
def test_the_deadline_reaches_the_view(kind: str, *, in_loop: bool) -> None:
    async def get() -> str:
        return (await AsyncClient().get(f"/{kind}/")).content.decode()

    def answer() -> str:
        return asyncio.run(get()) if in_loop else Client().get(f"/{kind}/").content.decode()

    with modify_settings(MIDDLEWARE=MIDDLEWARE):
        with override_settings(REDIS_LOCKS={"REQUEST_DEADLINE": 100}):
            assert 0 < float(answer()) <= 100
        assert "None" == answer()
    assert None is bounded(None)


def test_a_view_whose_lock_is_held_answers_at_the_deadline(name: str) -> None:
    with (
        modify_settings(MIDDLEWARE=MIDDLEWARE),
        override_settings(REDIS_LOCKS={"REQUEST_DEADLINE": 0.1}),
        held(name),
    ):
        assert 423 == Client().post(f"/locked/{name}/").status_code
    assert 200 == Client().post(f"/locked/{name}/").status_code
