"""Views of every kind that hold a lock while they run, and a URLconf of them."""

from __future__ import annotations

import asyncio
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from redis_locks import RedisLockMixin, redis_lock
from tests import elsewhere


def state(name: str) -> str:
    return "free" if elsewhere.is_free(name) else "held"


def answer(name: str) -> HttpResponse:
    return HttpResponse(state(name))


async def aanswer(name: str) -> HttpResponse:
    return HttpResponse(await asyncio.to_thread(state, name))


@redis_lock("{name}", wait=0)
def function(request: HttpRequest, name: str) -> HttpResponse:
    return answer(name)


@redis_lock("{name}", wait=0)
async def coroutine(request: HttpRequest, name: str) -> HttpResponse:
    return await aanswer(name)


class Methods(View):
    @redis_lock("{name}", wait=0)
    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return answer(name)


class AsyncMethods(View):
    @redis_lock("{name}", wait=0)
    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return await aanswer(name)


@method_decorator(redis_lock("{name}", wait=0), name="dispatch")
class Dispatch(View):
    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return answer(name)


@method_decorator(redis_lock("{name}", wait=0), name="dispatch")
class AsyncDispatch(View):
    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return await aanswer(name)


class DirectDispatch(View):
    @redis_lock("{name}", wait=0)
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)

    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return await aanswer(name)


@method_decorator(redis_lock("{name}", wait=0), name="get")
class AsyncMethodDecorator(View):
    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return await aanswer(name)


class Plain(View):
    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return answer(name)


class AsyncPlain(View):
    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return await aanswer(name)


class Mixed(RedisLockMixin, Plain):
    lock_name = "{name}"
    lock_wait = 0
    lock_methods = ("GET",)


class AsyncMixed(RedisLockMixin, AsyncPlain):
    lock_name = "{name}"
    lock_wait = 0
    lock_methods = ("GET",)


as_view_result = redis_lock("{name}", wait=0)(Plain.as_view())
async_as_view_result = redis_lock("{name}", wait=0)(AsyncPlain.as_view())


LOCKED: dict[str, Any] = {
    "function": function,
    "coroutine": coroutine,
    "methods": Methods.as_view(),
    "async-methods": AsyncMethods.as_view(),
    "dispatch": Dispatch.as_view(),
    "async-dispatch": AsyncDispatch.as_view(),
    "direct-dispatch": DirectDispatch.as_view(),
    "async-method-decorator": AsyncMethodDecorator.as_view(),
    "as-view": as_view_result,
    "async-as-view": async_as_view_result,
    "mixin": Mixed.as_view(),
    "async-mixin": AsyncMixed.as_view(),
}
urlpatterns = [path(f"{kind}/<str:name>/", view) for kind, view in LOCKED.items()]


async def aget(url: str) -> Any:
    return await AsyncClient().get(url)
