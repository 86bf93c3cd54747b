"""`RedisLockMixin`: what it locks, what may be overridden, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client, RequestFactory
from django.urls import path
from django.views import View

from redis_locks import Lock, LockNotAvailable, RedisLockMixin, Semaphore
from tests import elsewhere
from tests.django.locked_views import aanswer, state

pytestmark = pytest.mark.urls(__name__)


class Default(RedisLockMixin, View):
    """With the default methods, and everything that may be overridden."""

    lock_wait = 0

    def get_lock_name(self) -> str:
        return str(self.kwargs["name"])

    def lock_conflict(self, error: LockNotAvailable) -> HttpResponse:
        return JsonResponse({"holder": error.holder, "name": error.name}, status=409)

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return HttpResponse(f"{state(name)} {self.hold}")

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        assert self.hold is not None
        self.hold.check()
        return HttpResponse(f"{state(name)} {self.hold.name == name}")


class AsyncDefault(RedisLockMixin, View):
    lock_name = "{name}"
    lock_wait = 0

    async def lock_conflict(self, error: LockNotAvailable) -> HttpResponse:
        return HttpResponse("later", status=503)

    async def post(self, request: HttpRequest, name: str) -> HttpResponse:
        return await aanswer(name)


class ByUser(RedisLockMixin, View):
    lock_name = "user:{request.user.pk}"

    async def post(self, request: HttpRequest, name: str) -> HttpResponse:
        return await aanswer(f"user:{(await request.auser()).pk}")


urlpatterns = [
    path("default/<str:name>/", Default.as_view()),
    path("async-default/<str:name>/", AsyncDefault.as_view()),
    path("by-user/<str:name>/", ByUser.as_view()),
]


def test_the_mixin_locks_what_changes_and_not_what_reads(name: str) -> None:
    client = Client()
    assert client.get(f"/default/{name}/").content == b"free None"
    assert client.post(f"/default/{name}/").content == b"held True"
    assert state(name) == "free"
    with elsewhere.held(Lock(name)):
        assert client.get(f"/default/{name}/").status_code == 200


def test_the_mixins_answer_to_contention_can_be_built(name: str) -> None:
    with elsewhere.held(Lock(name)):
        response = Client().post(f"/default/{name}/")
        later = Client().post(f"/async-default/{name}/")
    assert (response.status_code, response.json()["name"]) == (409, name)
    assert (later.status_code, later.content) == (503, b"later")


def test_an_async_mixin_still_refuses_other_methods(name: str) -> None:
    assert Client().get(f"/async-default/{name}/").status_code == 405


@pytest.mark.django_db(transaction=True)
def test_an_async_mixin_may_name_the_user(name: str, django_user_model: Any) -> None:
    user = django_user_model.objects.create_user("somebody")
    client = Client()
    client.force_login(user)
    assert client.post(f"/by-user/{name}/").content == b"held"


@pytest.mark.django_db(transaction=True)
def test_a_lock_per_user_refuses_who_has_no_user(name: str) -> None:
    with pytest.raises(ValueError, match=r"request\.user\.pk\} is None"):
        Client().post(f"/by-user/{name}/")


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({}, "get_lock_name"),
        ({"lock_name": 5}, "lock_name must be a string"),
        ({"lock_name": "{pk!r}"}, "no conversion"),
        ({"lock_name": "x", "lock_wait": -1}, "wait must be"),
        ({"lock_name": "x", "lock_lease": 0}, "lease must be"),
        ({"lock_name": "x", "lock_using": 5}, "using must be"),
        ({"lock_name": "x", "lock_methods": "POST"}, "lock_methods"),
        ({"lock_name": "x", "lock_methods": ["post"]}, "lock_methods"),
        ({"lock_name": "x", "lock_methods": None}, "lock_methods"),
        (
            {"lock_name": "x", "lock_methods": ["POST", "FETCH"]},
            "'FETCH', which never takes the lock",
        ),
        ({"lock_name": "x", "lock_methods": ["HEAD", "OPTIONS"]}, "'HEAD', 'OPTIONS', which never"),
        (
            {"lock_name": "x", "lock_actions": ["post"]},
            "lock_actions=.* this view has lock_methods",
        ),
        ({"lock_name": "x", "lock_mode": "write"}, "mode must be"),
        ({"lock_name": "x", "lock_capacity": 0}, "capacity must be"),
        ({"lock_name": "x", "lock_capacity": 2, "lock_mode": "shared"}, "no lock_mode"),
    ],
)
def test_a_mixin_that_is_wrong_is_refused_in_the_urlconf(
    attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=text):
        type("Wrong", (RedisLockMixin, View), attributes).as_view()  # type: ignore[attr-defined]
    if attributes:
        with pytest.raises(ImproperlyConfigured, match=text):
            RedisLockMixin.as_view(**attributes)


def test_a_field_that_the_url_does_not_have_is_named() -> None:
    class Account(RedisLockMixin, View):
        lock_name = "account:{pk}"

        def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse: ...

    with pytest.raises(ValueError, match=r"no argument 'pk. .there are: id, and request"):
        Account.as_view()(RequestFactory().post("/"), id=1)


@pytest.mark.parametrize(
    ("attributes", "others"),
    [
        ({"lock_mode": "shared"}, {"mode": "shared"}),
        ({"lock_capacity": 2}, {"capacity": 2}),
    ],
)
def test_a_mixin_may_share(
    name: str, rf: RequestFactory, attributes: dict[str, Any], others: dict[str, Any]
) -> None:
    class Sharing(RedisLockMixin, View):
        lock_name = "{name}"
        lock_wait = 0

        def post(self, request: HttpRequest, name: str) -> HttpResponse:
            return HttpResponse(self.hold.mode if self.hold else "")

    view = Sharing.as_view(**attributes)
    other = Semaphore(name, **others) if "capacity" in others else Lock(name, **others)
    with elsewhere.held(other):
        assert view(rf.post("/"), name=name).status_code == 200
        with elsewhere.held(other):
            expected = 423 if "capacity" in others else 200
            assert view(rf.post("/"), name=name).status_code == expected
    with elsewhere.held(Lock(name)):
        assert view(rf.post("/"), name=name).status_code == 423
    braces = f"{name}:{{x}}"
    with elsewhere.held(Lock(braces)):
        assert view(rf.post("/"), name=braces).status_code == 423
    assert view(rf.post("/"), name=braces).status_code == 200
