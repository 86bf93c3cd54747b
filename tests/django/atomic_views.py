"""Locked views of all kinds, below ATOMIC_REQUESTS; each writes a row while the next holder waits for its lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from redis_locks import Lock, RedisLockMixin, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from tests.support import stored
from tests.support.configuration import get_settings
from tests.support.keys import lock_keys


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
    lock = lock_keys(get_settings().prefix, 0, name).lock
    deadline = monotonic() + 20
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        while not stored.line(client, lock):
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


def seen_by_next_holder(name: str) -> list[str] | None:
    waiting[name].join(30)
    return waiting[name].seen
