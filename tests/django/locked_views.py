"""Views of every kind whose lock is "{name}".

They do what a test gives them to do, and tell who holds the lock else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.decorators import api_view, renderer_classes
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from redis_locks import RedisLockMixin, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin, exception_handler
from tests import elsewhere

Views = dict[str, Any]


def state(name: str) -> str:
    return "free" if elsewhere.is_free(name) else "held"


_tasks: list[Callable[[str], HttpResponse]] = [lambda name: HttpResponse(state(name))]


@contextmanager
def doing(task: Callable[[str], HttpResponse]) -> Iterator[None]:
    """The views do this meanwhile, with the name that the URL has."""
    _tasks.append(task)
    try:
        yield
    finally:
        _tasks.pop()


def run(request: HttpRequest, name: str) -> HttpResponse:
    return _tasks[-1](name)


async def arun(request: HttpRequest, name: str) -> HttpResponse:
    return await asyncio.to_thread(_tasks[-1], name)


class Plain(View):
    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return run(request, name)

    post = get


class AsyncPlain(View):
    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return await arun(request, name)

    post = get


class PageRenderer(BaseRenderer):
    media_type = "text/html"
    format = "page"

    def render(self, data: Any, *_: object) -> str:
        return f"by the framework: {data['detail']}"


class Api(APIView):
    renderer_classes = [JSONRenderer, PageRenderer]
    get = post = Plain.get


class Handled(Api):
    def get_exception_handler(self) -> Any:
        return exception_handler


def api(view: Any) -> Any:
    return api_view(["GET", "POST"])(renderer_classes(Api.renderer_classes)(view))


def block(request: HttpRequest, name: str) -> HttpResponse:
    with redis_lock(name.replace("{", "{{"), wait=0):
        return run(request, name)


async def async_block(request: HttpRequest, name: str) -> HttpResponse:
    async with redis_lock(name, wait=0):
        return await arun(request, name)


class Blocks(Handled):
    def get(self, request: Any, name: str) -> HttpResponse:
        return block(request, name)

    post = get


def mixed(*bases: type[Any], **options: Any) -> Any:
    """A class of a view with a mixin, whose lock has these options.

    It says that it locks PUT, and has none.
    """
    ours = {"lock_name": "{name}", "lock_methods": ["GET", "POST", "PUT"]}
    return type("Mixed", bases, ours | {f"lock_{key}": value for key, value in options.items()})


def decorated(base: type[View], **options: Any) -> Any:
    lock = method_decorator(redis_lock("{name}", **options), name="dispatch")
    return lock(type("Dispatch", (base,), {}))


def sync(**options: Any) -> Views:
    """A blocking view of each kind, whose lock has these options."""
    lock = redis_lock("{name}", **options)
    return {
        "function": lock(run),
        "method": type(
            "Method", (View,), dict.fromkeys(("get", "post"), lock(Plain.get))
        ).as_view(),
        "dispatch": decorated(Plain, **options).as_view(),
        "as-view": lock(Plain.as_view()),
        "mixin": mixed(RedisLockMixin, Plain, **options).as_view(),
    }


def coroutines(**options: Any) -> Views:
    """The same of async views."""
    lock = redis_lock("{name}", **options)
    methods = dict.fromkeys(("get", "post"), lock(AsyncPlain.get))
    return {
        "coroutine": lock(arun),
        "async-method": type("Method", (View,), methods).as_view(),
        "async-dispatch": decorated(AsyncPlain, **options).as_view(),
        "async-as-view": lock(AsyncPlain.as_view()),
        "async-mixin": mixed(RedisLockMixin, AsyncPlain, **options).as_view(),
    }


def apis(**options: Any) -> Views:
    """The same of views of Django REST framework, which have renderers of their own."""
    lock = redis_lock("{name}", **options)
    viewset = mixed(RedisLockAPIMixin, ViewSet, **options)
    viewset.renderer_classes, viewset.work = Api.renderer_classes, Plain.get
    return {
        "api-below": lock(api(run)),
        "api-above": api(lock(run)),
        "api-dispatch": decorated(Api, **options).as_view(),
        "api-as-view": lock(Handled.as_view()),
        "api-plain-mixin": mixed(RedisLockMixin, Api, **options).as_view(),
        "api-mixin": mixed(RedisLockAPIMixin, Api, **options).as_view(),
        "api-set": viewset.as_view({"get": "work", "post": "work"}),
    }


def under(*decorators: Any, method: str, base: type[View]) -> Any:
    """A view class with this method under decorators, or lists of them, the outermost first."""
    found = type("Decorated", (base,), {})
    for decorator in reversed(decorators):
        found = method_decorator(decorator, name=method)(found)
    return found.as_view()  # type: ignore[attr-defined]


def hides(view: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate without functools.wraps, so that Django opens the transaction around the lock."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return inner


def urls(views: Mapping[str, Any]) -> list[URLPattern]:
    return [path(f"{kind}/<str:name>/", view) for kind, view in views.items()]


BY_THEMSELVES = sync(wait=0) | coroutines(wait=0)
BLOCKS: Views = {"block": block, "async-block": async_block}
APIS = apis(wait=0) | {"api-block": api(block), "api-handled": Blocks.as_view()}
UNLOCKED: Views = {"plain": run, "api-plain": api(run), "handled-plain": Handled.as_view()}

urlpatterns = urls(BY_THEMSELVES | BLOCKS | APIS | UNLOCKED)
