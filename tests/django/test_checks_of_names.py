"""manage.py check: which views cannot name their lock."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import clear_url_caches, include, path, re_path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.viewsets import ViewSet

from redis_locks import RedisLockMixin, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from tests.support.checks import check_lock_names

pytestmark = pytest.mark.urls(__name__)

urlpatterns: list[Any] = []


class Handling(View):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return HttpResponse()


class ByKey(RedisLockMixin, Handling):
    lock_name = "account:{pk}:{request.user.pk}"


class NamedByCode(ByKey):
    def get_lock_name(self) -> str:
        return "account"


class ReadOnly(RedisLockMixin, View):
    lock_name = "account:{pk}"

    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


@method_decorator(redis_lock("account:{pk}"), name="dispatch")
class Decorated(Handling): ...


@method_decorator(redis_lock("account:{key}"), name="post")
class Handler(View):
    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        return HttpResponse()


@redis_lock("account:{pk}")
def keywords(request: HttpRequest, **kwargs: Any) -> HttpResponse:
    return HttpResponse()


@redis_lock("account:{pk}")
def parameter(request: HttpRequest, pk: int = 1) -> HttpResponse:
    return HttpResponse()


class Accounts(RedisLockAPIMixin, ViewSet):
    lock_name = "account:{pk}"
    lock_methods = ("PUT",)

    def list(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    def update(self, request: HttpRequest, pk: int) -> HttpResponse:
        return HttpResponse()


def messages(*patterns: Any) -> list[str]:
    urlpatterns[:] = patterns
    clear_url_caches()
    found = check_lock_names()
    assert {"redis_locks.W014"} >= {message.id for message in found}
    return [message.msg for message in found]


@pytest.mark.parametrize(
    "view", [ByKey.as_view(), Decorated.as_view(), keywords, ByKey.as_view(lock_name="x:{pk}")]
)
def test_a_field_that_the_url_does_not_give_is_found(view: Any) -> None:
    (message,) = messages(path("accounts/<int:account_id>/", view))
    assert "'accounts/<int:account_id>/'" in message
    assert "{pk}, and the URL gives account_id" in message


@pytest.mark.parametrize("view", [ByKey.as_view(), Decorated.as_view(), keywords])
def test_what_the_url_its_prefix_or_its_extra_arguments_give_is_fine(view: Any) -> None:
    assert [] == messages(
        path("a/<int:pk>/", view),
        re_path(r"^b/(?P<pk>\d+)/$", view),
        path("c/<int:pk>/", include([path("d/", view)])),
        path("e/", view, {"pk": 1}),
        path("f/", include([path("g/", view)]), {"pk": 1}),
    )


def test_a_handler_that_has_no_such_argument_is_found() -> None:
    (message,) = messages(path("<int:pk>/", Handler.as_view()))
    assert "{key} is not a parameter" in message


def test_what_takes_no_lock_or_names_it_otherwise_is_fine() -> None:
    assert [] == messages(
        path("a/", NamedByCode.as_view()),
        path("b/", ReadOnly.as_view()),
        path("c/", parameter),
        path("d/", Accounts.as_view({"get": "list"})),
        path("e/<int:pk>/", Accounts.as_view({"put": "update"})),
        path("f/", ByKey.as_view(lock_name="account")),
    )


def test_a_viewset_s_route_that_takes_the_lock_is_looked_at() -> None:
    (message,) = messages(path("", Accounts.as_view({"put": "update"})))
    assert "{pk}, and the URL gives nothing" in message
