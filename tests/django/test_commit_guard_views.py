"""The commit guard of views, whose lock is around the transaction of ATOMIC_REQUESTS."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.views import APIView

from redis_locks import LockLost, RedisLockMixin, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from tests.django.transactions import increment, values
from tests.support import stored
from tests.support.world import keys_of

pytestmark = pytest.mark.usefixtures("transactional_db", "nothing_stays_kept")


def lose(name: str, lock: str = "") -> HttpResponse:
    increment("default", name)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        stored.drop_holder(client, keys_of(lock or name).lock)
    return HttpResponse(str(connection.in_atomic_block))


@redis_lock("{name}")
def function(request: HttpRequest, name: str) -> HttpResponse:
    return lose(name)


@redis_lock("{name}", commit_guard=False)
def unguarded(request: HttpRequest, name: str) -> HttpResponse:
    return lose(name)


@redis_lock("{name}", scope="block")
def block(request: HttpRequest, name: str) -> HttpResponse:
    return lose(name)


class Mixed(RedisLockMixin, View):
    lock_name = "{name}"

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        return lose(name)


@redis_lock("outer:{name}")
@redis_lock("middle:{name}")
@redis_lock("inner:{name}")
def stacked(request: HttpRequest, name: str, place: str) -> HttpResponse:
    return lose(name, f"{place}:{name}")


class StackedMixin(RedisLockMixin, View):
    lock_name = "inner:{name}"

    def post(self, request: HttpRequest, name: str, place: str) -> HttpResponse:
        return lose(name, f"{place}:{name}")


@method_decorator(redis_lock("outer:{name}"), name="dispatch")
class Dispatched(StackedMixin):
    pass


class StackedAPI(RedisLockAPIMixin, APIView):
    lock_name = "inner:{name}"

    def post(self, request: Any, name: str, place: str) -> HttpResponse:
        return lose(name, f"{place}:{name}")


urlpatterns = [
    path("stacked/<str:name>/<str:place>/", stacked),
    path("dispatched/<str:name>/<str:place>/", Dispatched.as_view()),
    path("api/<str:name>/<str:place>/", redis_lock("outer:{name}")(StackedAPI.as_view())),
    path("function/<str:name>/", function),
    path("unguarded/<str:name>/", unguarded),
    path("block/<str:name>/", block),
    path("mixin/<str:name>/", Mixed.as_view()),
    path("mixin-unguarded/<str:name>/", Mixed.as_view(lock_commit_guard=False)),
    path("mixin-block/<str:name>/", Mixed.as_view(lock_scope="block")),
]


@pytest.mark.urls(__name__)
@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("function", []),
        ("mixin", []),
        ("unguarded", [1]),
        ("mixin-unguarded", [1]),
        ("block", [1]),
        ("mixin-block", [1]),
    ],
)
def test_a_view_whose_lock_is_lost_does_not_commit_under_atomic_requests(
    name: str,
    kind: str,
    kept: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    with pytest.raises(LockLost):
        Client().post(f"/{kind}/{name}/")
    assert kept == values("default", name)


@pytest.mark.urls(__name__)
@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("stacked", ["outer", "middle", "inner"]),
        ("dispatched", ["outer", "inner"]),
        ("api", ["outer", "inner"]),
    ],
)
def test_all_locks_of_a_view_are_verified_under_atomic_requests(
    name: str, kind: str, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    for place in places:
        with pytest.raises(LockLost):
            Client().post(f"/{kind}/{name}/{place}/")
        assert [] == values("default", name), place
