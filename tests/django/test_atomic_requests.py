"""ATOMIC_REQUESTS: a locked view releases after COMMIT, so the next holder sees its work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections, transaction
from django.db.transaction import TransactionManagementError
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from redis_locks import Lock
from redis_locks.conf import get_settings
from redis_locks.decorators import redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from redis_locks.keys import lock_keys
from redis_locks.views import RedisLockMixin

pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db(transaction=True)]


class NextHolder(threading.Thread):
    """Waits for the lock, and then looks with a connection of its own at what was committed."""

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True)
        self.lock_name = name
        self.seen: list[str] | None = None

    def run(self) -> None:
        try:
            with Lock(self.lock_name, wait=20):
                self.seen = list(Group.objects.values_list("name", flat=True))
        finally:
            connections.close_all()


waiting: dict[str, NextHolder] = {}


def work(name: str) -> HttpResponse:
    """Write a row while the next holder waits in the queue."""
    Group.objects.create(name=name)
    waiting[name] = NextHolder(name)
    waiting[name].start()
    queue = lock_keys(get_settings().prefix, 0, name).queue
    deadline = monotonic() + 20
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        while not client.exists(queue):
            assert monotonic() < deadline, "the next holder never came"
    return HttpResponse(str(connection.in_atomic_block))


@redis_lock("{name}")
def function(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@redis_lock("outer:{name}")
@redis_lock("{name}")
def twice_inner(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@redis_lock("{name}")
@redis_lock("inner:{name}")
def twice_outer(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


class Working(View):
    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        return work(name)

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        Group.objects.create(name=name)
        return HttpResponse(str(connection.in_atomic_block))


class Mixed(RedisLockMixin, Working):
    lock_name = "{name}"


class API(RedisLockAPIMixin, APIView):
    lock_name = "{name}"
    post = Working.post
    get = Working.get


class APISet(RedisLockAPIMixin, ViewSet):
    lock_name = "{name}"
    work = Working.post


@method_decorator(redis_lock("{name}"), name="dispatch")
class Dispatch(Working):
    pass


@method_decorator(redis_lock("outer:{name}"), name="dispatch")
class MixedDispatch(Mixed):
    pass


@redis_lock("{name}")
def failing(request: HttpRequest, name: str) -> HttpResponse:
    work(name)
    raise RuntimeError("after the work")


def in_transaction(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """A middleware whose transaction is around that of the view."""
    return transaction.atomic(get_response)


def hides(view: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate without functools.wraps, so that Django opens the transaction around the lock."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return inner


@redis_lock("{name}")
def calls_itself(request: HttpRequest, name: str, again: bool = True) -> HttpResponse:
    return calls_itself(request, name, again=False) if again else work(name)


@redis_lock("{name}", scope="transaction")
def kept(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@redis_lock("{name}", scope="transaction")
@redis_lock("inner:{name}")
def kept_outer(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@redis_lock("outer:{name}")
@redis_lock("{name}", scope="transaction")
def kept_inner(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@redis_lock("{name}", scope="transaction")
@transaction.non_atomic_requests
def kept_opted_out_before(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@method_decorator(redis_lock("{name}", scope="transaction"), name="dispatch")
class KeptDispatch(Working):
    pass


class KeptMixedDispatch(MixedDispatch):
    lock_scope = "transaction"


@redis_lock("{name}", scope="transaction")
def kept_failing(request: HttpRequest, name: str) -> HttpResponse:
    work(name)
    raise RuntimeError("after the work")


@transaction.non_atomic_requests
@redis_lock("{name}")
def opted_out_after(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@redis_lock("{name}")
@transaction.non_atomic_requests
def opted_out_before(request: HttpRequest, name: str) -> HttpResponse:
    return work(name)


@redis_lock("{name}")
async def coroutine(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse()


class AsyncWorking(View):
    async def post(self, request: HttpRequest, name: str) -> HttpResponse:
        return HttpResponse()


class AsyncMixed(RedisLockMixin, AsyncWorking):
    lock_name = "{name}"


@method_decorator(redis_lock("{name}"), name="dispatch")
class AsyncDispatch(AsyncWorking):
    pass


ATOMIC: dict[str, Any] = {
    "function": function,
    "twice-inner": twice_inner,
    "twice-outer": twice_outer,
    "as-view": redis_lock("{name}")(Working.as_view()),
    "mixin": Mixed.as_view(),
    "method-decorator": Dispatch.as_view(),
    "both": MixedDispatch.as_view(),
    "api": API.as_view(),
    "api-set": APISet.as_view({"post": "work"}),
    "hidden": hides(function),
    "hidden-mixin": hides(Mixed.as_view()),
    "calls-itself": calls_itself,
}
AROUND: dict[str, Any] = {
    "atomic-above": transaction.atomic(function),
    "atomic-above-mixin": transaction.atomic(Mixed.as_view()),
}
KEPT: dict[str, Any] = {
    "kept": kept,
    "kept-outer": kept_outer,
    "kept-inner": kept_inner,
    "kept-as-view": redis_lock("{name}", scope="transaction")(Working.as_view()),
    "kept-method-decorator": KeptDispatch.as_view(),
    "kept-mixin": Mixed.as_view(lock_scope="transaction"),
    "kept-both": KeptMixedDispatch.as_view(),
    "kept-api": API.as_view(lock_scope="transaction"),
    "kept-api-set": APISet.as_view({"post": "work"}, lock_scope="transaction"),
}
KEPT_OPTED_OUT: dict[str, Any] = {
    "kept-opted-out-before": kept_opted_out_before,
    "kept-opted-out-after": transaction.non_atomic_requests(KeptDispatch.as_view()),
}
FAILING: dict[str, Any] = {"failing": failing, "kept-failing": kept_failing}
OPTED_OUT: dict[str, Any] = {
    "opted-out-after": opted_out_after,
    "opted-out-before": opted_out_before,
    "opted-out-mixin": transaction.non_atomic_requests(Mixed.as_view()),
}
ASYNC: dict[str, Any] = {
    "coroutine": coroutine,
    "async-as-view": redis_lock("{name}")(AsyncWorking.as_view()),
    "async-mixin": AsyncMixed.as_view(),
    "async-method-decorator": AsyncDispatch.as_view(),
}
urlpatterns = [
    path(f"{kind}/<str:name>/", view)
    for views in (ATOMIC, AROUND, KEPT, KEPT_OPTED_OUT, FAILING, OPTED_OUT, ASYNC)
    for kind, view in views.items()
]


@pytest.fixture(autouse=True)
def _atomic_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    yield
    waiting.clear()


def seen_by_next_holder(name: str) -> list[str] | None:
    waiting[name].join(30)
    return waiting[name].seen


@pytest.mark.parametrize("kind", ATOMIC | AROUND | KEPT)
def test_the_next_holder_sees_what_was_committed(kind: str, name: str) -> None:
    response = Client().post(f"/{kind}/{name}/")
    assert response.content == b"True"
    assert seen_by_next_holder(name) == [name]


@pytest.mark.parametrize("kind", ["function", "mixin", "calls-itself"])
@override_settings(MIDDLEWARE=[f"{__name__}.in_transaction"])
def test_so_it_does_below_a_middleware_that_opens_a_transaction(kind: str, name: str) -> None:
    assert Client().post(f"/{kind}/{name}/").content == b"True"
    assert seen_by_next_holder(name) == [name]


@pytest.mark.parametrize("kind", FAILING)
def test_an_error_rolls_back_before_the_lock_is_released(kind: str, name: str) -> None:
    with pytest.raises(RuntimeError, match="after the work"):
        Client().post(f"/{kind}/{name}/")
    assert seen_by_next_holder(name) == []


@pytest.mark.parametrize("kind", OPTED_OUT)
def test_a_view_that_opted_out_gets_no_transaction(kind: str, name: str) -> None:
    response = Client().post(f"/{kind}/{name}/")
    assert response.content == b"False"
    assert seen_by_next_holder(name) == [name]


@pytest.mark.parametrize("kind", KEPT_OPTED_OUT)
def test_a_lock_for_transactions_is_refused_to_a_view_that_opted_out(kind: str, name: str) -> None:
    with pytest.raises(TransactionManagementError, match="needs a transaction on database"):
        Client().post(f"/{kind}/{name}/")
    assert {} == waiting


@pytest.mark.parametrize("kind", ["mixin", "api", "kept-mixin", "kept-api"])
def test_a_method_without_lock_still_gets_its_transaction(kind: str, name: str) -> None:
    assert Client().get(f"/{kind}/{name}/").content == b"True"


@pytest.mark.parametrize("kind", ATOMIC)
def test_without_atomic_requests_there_is_no_transaction(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", False)
    assert Client().post(f"/{kind}/{name}/").content == b"False"
    assert seen_by_next_holder(name) == [name]


def test_a_view_called_as_a_function_gets_no_transaction(name: str) -> None:
    assert function(RequestFactory().post("/"), name).content == b"False"
    assert seen_by_next_holder(name) == [name]


@pytest.mark.parametrize(
    ("view", "options", "message"),
    [
        (Mixed, {"lock_scope": "request"}, "scope must be 'auto', 'block' or 'transaction'"),
        (Mixed, {"lock_database": ""}, "database must be an alias of DATABASES"),
        (Mixed, {"lock_commit_guard": None}, "commit_guard must be True or False, not None"),
        (AsyncMixed, {"lock_scope": "transaction"}, "not for async code"),
    ],
)
def test_a_mixin_refuses_what_the_decorator_refuses(
    view: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"{view.__name__}: .*{message}"):
        view.as_view(**options)


@pytest.mark.parametrize("kind", ASYNC)
def test_an_async_view_is_refused_as_django_refuses_it(kind: str, name: str) -> None:
    with pytest.raises(RuntimeError, match="ATOMIC_REQUESTS with async views"):
        Client().post(f"/{kind}/{name}/")
