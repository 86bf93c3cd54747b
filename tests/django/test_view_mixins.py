"""Which requests of a class-based view take its lock, and what would take none or too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.decorators import login_required, user_passes_test
from django.contrib.auth.mixins import (
    LoginRequiredMixin,
    PermissionRequiredMixin,
    UserPassesTestMixin,
)
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import clear_url_caches, path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.generic import TemplateView
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView
from rest_framework.viewsets import ModelViewSet, ViewSet

from redis_locks import RedisLockMixin, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from redis_locks.testing import assert_locked, assert_released
from tests import elsewhere
from tests.support.checks import check_lock_names, check_view_order

pytestmark = pytest.mark.urls(__name__)

urlpatterns: list[Any] = []


class Prefixes(RedisLockAPIMixin, ViewSet):
    lock_name = "{pk}"
    lock_wait = 0
    lock_actions: Any = ["available_ips", "export"]

    def available_ips(self, request: Request, pk: str) -> Response:
        assert_locked(pk)
        return Response(status=201)

    def export(self, request: Request, pk: str) -> Response:
        assert_locked(pk)
        return Response("exported")

    def destroy(self, request: Request, pk: str) -> Response:
        assert self.hold is None
        return Response(status=204)

    def create(self, request: Request) -> Response:
        assert self.hold is None
        return Response(status=201)


class Named(Prefixes):
    """Says by its name which requests take the lock."""

    lock_actions = None

    def get_lock_name(self) -> str | None:
        return self.kwargs["pk"] if self.action == "available_ips" else None


def call(view: type[Any], method: str, action: str, **kwargs: str) -> int:
    request = getattr(APIRequestFactory(), method)("/")
    status: int = view.as_view({method: action})(request, **kwargs).status_code
    return status


@pytest.mark.parametrize("view", [Prefixes, Named])
def test_one_action_of_a_viewset_takes_the_lock(view: type[Any], name: str) -> None:
    with elsewhere.held(redis_lock(name)):
        assert call(view, "post", "available_ips", pk=name) == 423
        assert call(view, "delete", "destroy", pk=name) == 204
        assert call(view, "post", "create") == 201
    assert call(view, "post", "available_ips", pk=name) == 201
    assert_released(name)


def test_an_action_that_reads_takes_the_lock_if_it_is_named(name: str) -> None:
    with elsewhere.held(redis_lock(name)):
        assert call(Prefixes, "get", "export", pk=name) == 423
        assert call(Prefixes, "options", "export", pk=name) == 200
    assert call(Prefixes, "get", "export", pk=name) == 200


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ("export", r"must be a list of actions such as \['update'\], not 'export'"),
        ({"export": "x"}, "must be a list of actions"),
        (["exprot"], "lock_actions names 'exprot', and the viewset has no such action"),
        ([5], "lock_actions names 5"),
    ],
)
def test_wrong_actions_are_refused(actions: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        Prefixes.as_view({"get": "export"}, lock_actions=actions)


def test_a_view_that_is_no_viewset_has_no_actions() -> None:
    class Plain(RedisLockAPIMixin, APIView):
        lock_name = "x"
        lock_actions = ["post"]

    with pytest.raises(ImproperlyConfigured, match="name the methods of a view in lock_methods"):
        Plain.as_view()


class Optional(RedisLockMixin, View):
    lock_wait = 0

    def get_lock_name(self) -> str | None:
        return self.kwargs.get("pk")

    def post(self, request: HttpRequest, pk: str | None = None) -> HttpResponse:
        return HttpResponse("locked" if self.hold else "free")


class AsyncOptional(Optional):
    async def post(self, request: HttpRequest, pk: str | None = None) -> HttpResponse:
        return HttpResponse("locked" if self.hold else "free")


@pytest.mark.parametrize("view", [Optional, AsyncOptional])
def test_a_request_without_a_name_takes_no_lock(view: type[View], name: str) -> None:
    def post(**kwargs: str) -> Any:
        answer = view.as_view()(RequestFactory().post("/"), **kwargs)
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer  # type: ignore[arg-type]

    assert b"free" == post().content
    assert b"locked" == post(pk=name).content
    with elsewhere.held(redis_lock(name)):
        assert 423 == post(pk=name).status_code


class Cooperative(View):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)


class Closed(View):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return HttpResponse("by itself")


def api_after() -> Any:
    class V(APIView, RedisLockAPIMixin):
        lock_name = "x"


def viewset_after() -> Any:
    class V(ModelViewSet, RedisLockAPIMixin):
        lock_name = "x"


def plain_mixin_after_api() -> Any:
    class V(APIView, RedisLockMixin):
        lock_name = "x"


def own_dispatch() -> Any:
    class V(RedisLockMixin, View):
        def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            return HttpResponse("by itself")


def own_initial() -> Any:
    class V(RedisLockAPIMixin, APIView):
        def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
            self.format_kwarg = None


def closed_before() -> Any:
    class V(Closed, RedisLockMixin):
        lock_name = "x"


def decorated_before() -> Any:
    @method_decorator(login_required, name="dispatch")
    class Private(View): ...

    class V(Private, RedisLockMixin):
        lock_name = "x"


@pytest.mark.parametrize(
    ("made", "advice"),
    [
        (api_after, r"before APIView: class V\(RedisLockAPIMixin, ...\)"),
        (viewset_after, r"class V\(RedisLockAPIMixin, ...\)"),
        (plain_mixin_after_api, r"class V\(RedisLockAPIMixin, ...\)"),
        (own_dispatch, r"V.dispatch\(\) does not call .*Call super\(\).dispatch\(\)"),
        (own_initial, r"V.initial\(\) does not call .*Call super\(\).initial\(\)"),
        (closed_before, r"before Closed: class V\(RedisLockMixin, ...\)"),
        (decorated_before, r"before Private: class V\(RedisLockMixin, ...\)"),
    ],
)
def test_an_order_that_would_take_no_lock_is_refused_where_the_class_is_defined(
    made: Callable[[], Any], advice: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"would take no lock.*{advice}"):
        made()


def test_the_mixin_for_api_views_is_refused_on_another_view() -> None:
    class V(RedisLockAPIMixin, View):
        lock_name = "x"

    with pytest.raises(ImproperlyConfigured, match="write RedisLockMixin instead"):
        V.as_view()


class AfterCooperative(Cooperative, RedisLockMixin):
    lock_name = "{pk}"
    lock_wait = 0

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        return HttpResponse("done")


class AfterTemplateView(TemplateView, RedisLockMixin):
    lock_name = "{pk}"
    lock_wait = 0

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        return HttpResponse("done")


@method_decorator(login_required, name="dispatch")
class UnderLogin(RedisLockMixin, View):
    lock_name = "{pk}"
    lock_wait = 0

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        return HttpResponse("done")


@pytest.mark.parametrize("view", [AfterCooperative, AfterTemplateView, UnderLogin])
def test_an_order_that_reaches_the_lock_takes_it(view: type[View], name: str) -> None:
    request = RequestFactory().post("/")
    request.user = type("User", (), {"is_authenticated": True})()  # type: ignore[assignment]
    with elsewhere.held(redis_lock(name)):
        assert 423 == view.as_view()(request, pk=name).status_code
    assert 200 == view.as_view()(request, pk=name).status_code


class Posting(View):
    def post(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("done")


class LockFirst(RedisLockMixin, LoginRequiredMixin, Posting):
    lock_name = "x"


class AccessFirst(UserPassesTestMixin, RedisLockMixin, Posting):
    lock_name = "x"


class Permitted(RedisLockMixin, PermissionRequiredMixin, Posting):
    lock_name = "x"
    permission_required = "x"


class ApiWithPlainMixin(RedisLockMixin, APIView):
    lock_name = "x"

    def post(self, request: Any) -> Response:
        return Response("done")


@method_decorator(redis_lock("x"), name="dispatch")
class DecoratedApi(APIView): ...


@method_decorator(redis_lock("x"), name="dispatch")
class DecoratedLogin(LoginRequiredMixin, View): ...


class Handlers(LoginRequiredMixin, View):
    @method_decorator(redis_lock("x"))
    def post(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("done")


@redis_lock("x")
@login_required
def lock_first(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


@user_passes_test(bool)
@redis_lock("x")
def lock_last(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


@redis_lock("x")
@api_view(["POST"])
def api_first(request: Any) -> Response:
    return Response("done")


@api_view(["POST"])
@redis_lock("x")
def api_last(request: Any) -> Response:
    return Response("done")


def route(view: Any) -> None:
    urlpatterns[:] = [path("v/", view)]
    clear_url_caches()


@pytest.mark.parametrize(
    ("view", "advice"),
    [
        (LockFirst.as_view(), "class LockFirst(LoginRequiredMixin, RedisLockMixin, ...)"),
        (Permitted.as_view(), "class Permitted(PermissionRequiredMixin, RedisLockMixin, ...)"),
        (ApiWithPlainMixin.as_view(), "class ApiWithPlainMixin(RedisLockAPIMixin, ...)"),
        (DecoratedApi.as_view(), "Use RedisLockAPIMixin in place of redis_lock('x')"),
        (DecoratedLogin.as_view(), "Decorate the handlers, such as post(), with redis_lock('x')"),
        (lock_first, "below the decorator that checks permissions, such as @login_required"),
        (api_first, "Write redis_lock('x') below @api_view"),
    ],
)
def test_a_lock_before_the_check_of_permissions_is_found(view: Any, advice: str) -> None:
    route(view)
    (found,) = check_view_order()
    assert found.id == "redis_locks.W016"
    assert "'v/' takes its lock before it checks permissions" in found.msg
    assert advice in str(found.hint)


@pytest.mark.parametrize(
    "view",
    [
        AccessFirst.as_view(),
        Handlers.as_view(),
        lock_last,
        api_last,
        Prefixes.as_view({"post": "create"}),
        Optional.as_view(),
        UnderLogin.as_view(),
    ],
)
def test_a_lock_after_the_check_of_permissions_is_right(view: Any) -> None:
    route(view)
    assert [] == check_view_order()


class OnlyGet(RedisLockMixin, View):
    lock_name = "x"

    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("not locked")


def test_a_view_that_never_takes_its_lock_is_found() -> None:
    route(OnlyGet.as_view())
    (found,) = check_view_order()
    assert found.id == "redis_locks.W018"
    assert "OnlyGet handles none of its lock_methods, POST, PUT, PATCH, DELETE" in found.msg


@pytest.mark.parametrize("methods", [["GET"], []])
def test_a_view_that_takes_its_lock_or_none_on_purpose_is_right(methods: list[str]) -> None:
    route(OnlyGet.as_view(lock_methods=methods))
    assert [] == check_view_order()


def test_an_action_without_a_lock_needs_no_name() -> None:
    route(Prefixes.as_view({"post": "create"}))
    assert [] == check_lock_names()
    route(Prefixes.as_view({"post": "available_ips"}))
    (found,) = check_lock_names()
    assert "lock_actions" in str(found.hint)


@redis_lock("file:{text}", wait=0)
def by_template(request: HttpRequest, text: str) -> HttpResponse:
    return HttpResponse("done")


@redis_lock(lambda request, text: text, wait=0)
def by_callable(request: HttpRequest, text: str) -> HttpResponse:
    return HttpResponse("done")


@redis_lock("file:{text}", wait=0)
async def by_async(request: HttpRequest, text: str) -> HttpResponse:
    return HttpResponse("done")


def in_block(request: HttpRequest, text: str) -> HttpResponse:
    with redis_lock(f"file:{text}".replace("{", "{{"), wait=0):
        return HttpResponse("done")


class Mixed(RedisLockMixin, View):
    lock_name = "file:{text}"

    def get(self, request: HttpRequest, text: str) -> HttpResponse:
        return HttpResponse("done")

    post = get


class AsyncMixed(RedisLockMixin, View):
    def get_lock_name(self) -> str:
        return f"file:{self.kwargs['text']}"

    async def post(self, request: HttpRequest, text: str) -> HttpResponse:
        return HttpResponse("done")


class Api(RedisLockAPIMixin, APIView):
    lock_name = "file:{text}"

    def post(self, request: Request, text: str) -> Response:
        return Response("done")


class ApiBlock(APIView):
    def get_exception_handler(self) -> Any:
        from redis_locks.integrations.rest_framework import exception_handler

        return exception_handler

    def post(self, request: Request, text: str) -> Response:
        with redis_lock(f"file:{text}"):
            return Response("done")


VIEWS = {
    "template": by_template,
    "callable": by_callable,
    "async": by_async,
    "block": in_block,
    "mixin": Mixed.as_view(),
    "async mixin": AsyncMixed.as_view(),
    "api": Api.as_view(),
    "api block": ApiBlock.as_view(),
}


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize(
    "text", ["a" * 600, "a\0b", "\N{SNOWMAN}" * 200], ids=["long", "NUL", "wide"]
)
def test_a_name_in_the_url_that_cannot_be_one_is_not_found(
    kind: str, text: str, settings: Any, redis_server: object
) -> None:
    settings.MIDDLEWARE = ["redis_locks.middleware.lock_responses"]
    urlpatterns[:] = [path("f/<path:text>", VIEWS[kind])]
    clear_url_caches()
    assert 404 == Client().post("/f/" + text).status_code
    assert 200 == Client().post("/f/short").status_code


def test_a_call_that_is_no_views_raises_as_ever() -> None:
    @redis_lock("file:{text}")
    def work(text: str) -> None: ...

    with pytest.raises(ValueError, match="the limit is 512"):
        work("a" * 600)

    @redis_lock("file:{text}", on_conflict="raise")
    def helper(request: HttpRequest, text: str) -> None: ...

    with pytest.raises(ValueError, match="the limit is 512") as raised:
        helper(RequestFactory().post("/"), "a" * 600)
    assert not isinstance(raised.value, Http404)


@pytest.mark.parametrize("attribute", ["lock_wiat", "lock_names", "lock_method"])
def test_a_misspelled_attribute_is_refused(attribute: str) -> None:
    view = type("Misspelled", (RedisLockMixin, View), {"lock_name": "a", attribute: 0})
    with pytest.raises(
        ImproperlyConfigured, match=rf"Misspelled: {attribute} has no effect: write lock_"
    ):
        view.as_view()


def test_an_attribute_of_another_name_is_the_view_s_own() -> None:
    type("Own", (RedisLockMixin, View), {"lock_name": "a", "lock_icon": "closed"}).as_view()
