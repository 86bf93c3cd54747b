"""manage.py check: which views release a lock before COMMIT."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import clear_url_caches, include, path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from rest_framework.viewsets import ViewSet

from redis_locks import Lock, RedisLockMixin, Semaphore, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from tests.support.checks import check_views

pytestmark = pytest.mark.urls(__name__)

urlpatterns: list[Any] = []


def hides(view: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return inner


def shows(view: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(view)(hides(view))


class Hides:
    def __init__(self, view: Callable[..., Any]) -> None:
        self.view = view

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.view(*args, **kwargs)


def by_hand(view: Callable[..., Any]) -> Callable[..., Any]:
    lock = Lock("by hand", scope="block")

    def inner(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return view(*args, **kwargs)

    return inner


def plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


class Plain(View):
    def post(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


class Mixed(RedisLockMixin, Plain):
    lock_name = "mixed"


class APISet(RedisLockAPIMixin, ViewSet):
    lock_name = "set"

    @method_decorator(redis_lock("action", scope="block"))
    def work(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


@method_decorator(redis_lock("dispatch", scope="block"), name="dispatch")
class Dispatch(Plain):
    pass


@method_decorator(redis_lock("dispatch", scope="block"), name="dispatch")
class MixedDispatch(Mixed):
    pass


@method_decorator([hides, redis_lock("post", scope="block")], name="post")
class Post(Plain):
    pass


class Overrides(Mixed):
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(*args, **kwargs)


@method_decorator(hides, name="dispatch")
class DecoratedOverrides(Overrides):
    pass


class APIOverrides(APISet):
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(*args, **kwargs)


@method_decorator(csrf_exempt, name="dispatch")
class Exempt(Mixed):
    pass


async def coroutine(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


kept = redis_lock("kept")(plain)
block = redis_lock("block", scope="block")(plain)
kept_by_default = redis_lock("kept", database="default")(plain)
on_other = redis_lock("other", database="other")(plain)


def warnings_of(view: Any) -> list[CheckMessage]:
    urlpatterns[:] = [path("bank/", include(([path("pay/<int:pk>/", view)], "bank")))]
    clear_url_caches()
    return check_views()


def found(view: Any) -> list[str]:
    warnings = warnings_of(view)
    assert all(isinstance(warning, CheckWarning) and warning.hint for warning in warnings)
    assert all("redis_locks.W005" == warning.id for warning in warnings)
    return [warning.msg for warning in warnings]


@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize(
    ("view", "lock"),
    [
        (hides(block), "redis_lock('block')"),
        (Hides(block), "redis_lock('block')"),
        (hides(on_other), "redis_lock('other')"),
        (redis_lock("outer")(hides(block)), "redis_lock('block')"),
        (hides(Semaphore("permits", 3, scope="block")(plain)), "Semaphore('permits')"),
        (redis_lock("outer")(by_hand(plain)), "Lock('by hand')"),
        (Post.as_view(), "redis_lock('post')"),
        (APISet.as_view({"post": "work"}), "redis_lock('action')"),
        (hides(Mixed.as_view(lock_scope="block")), "the lock of Mixed"),
        (hides(Mixed.as_view(lock_database="other")), "the lock of Mixed"),
    ],
)
def test_a_lock_that_ends_before_commit_is_found(view: Any, lock: str) -> None:
    assert found(view) == [
        f"The view at 'bank/pay/<int:pk>/' releases {lock} before COMMIT on database 'default': "
        "the next holder may not see what was written."
    ]


@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize(
    "view",
    [
        on_other,
        shows(block),
        transaction.non_atomic_requests(hides(block)),
        Mixed.as_view(),
        Dispatch.as_view(),
        MixedDispatch.as_view(),
        Mixed.as_view(lock_scope="transaction"),
        hides(redis_lock("coroutine")(coroutine)),
    ],
)
def test_a_lock_that_outlives_commit_is_not(view: Any) -> None:
    assert found(view) == []


def test_without_atomic_requests_hidden_locks_are_fine() -> None:
    assert found(hides(block)) == []


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (transaction.atomic(block), 1),
        (hides(transaction.atomic(using="other")(kept)), 0),
        (hides(transaction.atomic(using="other")(kept_by_default)), 1),
        (transaction.atomic(kept), 0),
        (redis_lock("above", scope="block")(transaction.atomic(plain)), 0),
    ],
)
def test_an_atomic_above_the_lock_counts_as_well(view: Any, expected: int) -> None:
    assert expected == len(found(view))


@pytest.mark.usefixtures("atomic_requests")
def test_a_lock_that_the_transaction_of_another_database_keeps_is_found() -> None:
    (message,) = found(redis_lock("kept", scope="transaction", database="other")(plain))
    assert "releases redis_lock('kept') before COMMIT on database 'default'" in message
    (message,) = found(redis_lock("outer", scope="transaction")(block))
    assert "releases redis_lock('block') before COMMIT" in message


@pytest.mark.usefixtures("atomic_requests")
def test_the_mixin_s_lock_is_kept_by_all_databases_or_by_the_one_that_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        connections.settings, "other", {**connections.settings["default"], "ATOMIC_REQUESTS": True}
    )
    assert found(Mixed.as_view()) == []
    assert found(hides(Mixed.as_view())) == []
    (message,) = found(hides(Mixed.as_view(lock_database="default")))
    assert "the lock of Mixed before COMMIT on database 'other'" in message


@pytest.mark.parametrize(
    "view",
    [
        Overrides.as_view(),
        DecoratedOverrides.as_view(),
        redis_lock("outer")(Overrides.as_view()),
        APIOverrides.as_view({"post": "create"}),
    ],
)
def test_a_dispatch_around_the_mixin_s_is_found(view: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [] == warnings_of(view)
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    (warning,) = warnings_of(view)
    assert "redis_locks.W015" == warning.id
    assert "has a dispatch() of its own around its lock" in warning.msg
    assert warning.hint


@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize(
    "view",
    [
        Mixed.as_view(),
        APISet.as_view({"post": "create"}),
        Exempt.as_view(),
        hides(Overrides.as_view()),
        Overrides.as_view(lock_scope="transaction"),
        transaction.non_atomic_requests(Overrides.as_view()),
    ],
)
def test_a_dispatch_in_the_transaction_or_of_others_is_not(view: Any) -> None:
    assert [] == warnings_of(view)


def test_a_project_without_urls_has_no_views_to_check() -> None:
    with override_settings(ROOT_URLCONF=None):
        assert check_views() == []
