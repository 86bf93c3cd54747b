"""Mixins of class-based views: which requests take the lock, what to override, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.decorators import login_required, user_passes_test
from django.contrib.auth.mixins import (
    LoginRequiredMixin,
    PermissionRequiredMixin,
    UserPassesTestMixin,
)
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.test import Client, RequestFactory
from django.urls import clear_url_caches, path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView
from rest_framework.viewsets import ModelViewSet, ViewSet

from redis_locks import Lock, LockNotAvailable, RedisLockMixin, Semaphore, redis_lock
from redis_locks.integrations.rest_framework import RedisLockAPIMixin
from redis_locks.testing import assert_locked, assert_released, held
from tests.django.locked_views import (
    APIS,
    BLOCKS,
    BY_THEMSELVES,
    AsyncPlain,
    Plain,
    doing,
    mixed,
    run,
    state,
    under,
)
from tests.support.checks import check_view_order
from tests.support.world import granted

pytestmark = pytest.mark.urls(__name__)

urlpatterns: list[Any] = []


def route(view: Any, address: str = "v/") -> None:
    urlpatterns[:] = [path(address, view)]
    clear_url_caches()


class Default(RedisLockMixin, View):
    """With the default methods, and everything that may be overridden."""

    lock_wait = 0

    def get_lock_name(self) -> str | None:
        return self.kwargs.get("name")

    def lock_conflict(self, error: LockNotAvailable) -> HttpResponse:
        return JsonResponse({"holder": error.holder, "name": error.name}, status=409)

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        return HttpResponse(f"{state(name)} {self.hold}")

    def post(self, request: HttpRequest, name: str = "") -> HttpResponse:
        return HttpResponse(f"{state(name)} {self.hold.name == name}" if self.hold else "no lock")


class AsyncDefault(Default):
    async def lock_conflict(self, error: LockNotAvailable) -> HttpResponse:  # type: ignore[override]
        return HttpResponse("later", status=503)

    async def get(self, request: HttpRequest, name: str) -> HttpResponse:  # type: ignore[override]
        return await asyncio.to_thread(super().get, request, name)

    async def post(self, request: HttpRequest, name: str = "") -> HttpResponse:  # type: ignore[override]
        return await asyncio.to_thread(super().post, request, name)


def answer(view: type[View], method: str = "post", **kwargs: str) -> Any:
    found = view.as_view()(getattr(RequestFactory(), method)("/"), **kwargs)
    return asyncio.run(found) if asyncio.iscoroutine(found) else found  # type: ignore[arg-type]


@pytest.mark.parametrize("view", [Default, AsyncDefault])
def test_a_mixin_locks_what_changes_and_has_a_name(view: type[View], name: str) -> None:
    assert b"held True" == answer(view, name=name).content
    assert b"no lock" == answer(view).content
    assert "free" == state(name)


def test_the_mixins_answer_to_contention_can_be_built(name: str) -> None:
    assert b"free None" == answer(Default, "get", name=name).content
    with held(name):
        assert 200 == answer(Default, "get", name=name).status_code
        response, later = answer(Default, name=name), answer(AsyncDefault, name=name)
    assert name in response.content.decode()
    assert (409, 503, b"later") == (response.status_code, later.status_code, later.content)


@pytest.mark.django_db(transaction=True)
def test_an_async_mixin_may_name_the_user_and_refuses_who_has_none(django_user_model: Any) -> None:
    view = mixed(RedisLockMixin, AsyncPlain)
    route(view.as_view(lock_name="user:{request.user.pk}"), "<str:name>/")
    user = django_user_model.objects.create_user("somebody")
    with pytest.raises(ValueError, match=r"request\.user\.pk\} is None"):
        Client().post("/x/")
    client = Client()
    client.force_login(user)
    assert b"held" == client.post(f"/user:{user.pk}/").content


@pytest.mark.parametrize(
    ("options", "others", "second"),
    [({"mode": "shared"}, {"mode": "shared"}, 200), ({"capacity": 2}, {"capacity": 2}, 423)],
)
def test_a_mixin_may_share(
    name: str, options: dict[str, Any], others: dict[str, Any], second: int
) -> None:
    view = mixed(RedisLockMixin, Plain, wait=0, **options)
    other = Semaphore(name, **others) if "capacity" in others else Lock(name, **others)
    first = granted(other.acquire())
    assert 200 == answer(view, name=name).status_code
    another = granted(other.acquire())
    assert second == answer(view, name=name).status_code
    for hold in (first, another):
        hold.release()
    braces = f"{name}:{{x}}"
    for each in (name, braces):
        with held(each):
            assert 423 == answer(view, name=each).status_code
    assert 200 == answer(view, name=braces).status_code


# Viewsets


class Prefixes(RedisLockAPIMixin, ViewSet):
    lock_name = "{pk}"
    lock_wait = 0
    lock_actions: Any = ["available_ips", "export"]

    def available_ips(self, request: Request, pk: str) -> Response:
        assert_locked(pk)
        return Response("done")

    export = available_ips

    def create(self, request: Request, pk: str = "") -> Response:
        assert self.hold is None
        return Response("done")

    destroy = create


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
    with held(name):
        assert call(view, "post", "available_ips", pk=name) == 423
        assert call(view, "delete", "destroy", pk=name) == 200
        assert call(view, "post", "create") == 200
    assert call(view, "post", "available_ips", pk=name) == 200
    assert_released(name)


def test_an_action_that_reads_takes_the_lock_if_it_is_named(name: str) -> None:
    with held(name):
        assert call(Prefixes, "get", "export", pk=name) == 423
        assert call(Prefixes, "options", "export", pk=name) == 200
    assert call(Prefixes, "get", "export", pk=name) == 200


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ("export", r"must be a list of actions such as \['update'\], not 'export'"),
        (["exprot"], "lock_actions names 'exprot', and the viewset has no such action"),
    ],
)
def test_wrong_actions_are_refused(actions: Any, message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        Prefixes.as_view({"get": "export"}, lock_actions=actions)


# The order of classes and decorators


class Cooperative(View):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)


def by_itself(*args: Any, **kwargs: Any) -> HttpResponse:
    """What overrides a method, and does not call the one that it overrides."""
    return HttpResponse("by itself")


class Closed(View):
    dispatch = by_itself


@method_decorator(login_required, name="dispatch")
class Private(View): ...


@pytest.mark.parametrize(
    ("bases", "members", "advice"),
    [
        ((APIView, RedisLockAPIMixin), {}, r"before APIView: class V\(RedisLockAPIMixin, ...\)"),
        ((ModelViewSet, RedisLockAPIMixin), {}, r"class V\(RedisLockAPIMixin, ...\)"),
        ((APIView, RedisLockMixin), {}, r"class V\(RedisLockAPIMixin, ...\)"),
        (
            (RedisLockMixin, View),
            {"dispatch": by_itself},
            r"V.dispatch\(\) does not call .*Call super\(\).dispatch\(\)",
        ),
        (
            (RedisLockAPIMixin, APIView),
            {"initial": by_itself},
            r"V.initial\(\) does not call .*Call super\(\).initial\(\)",
        ),
        ((Closed, RedisLockMixin), {}, r"before Closed: class V\(RedisLockMixin, ...\)"),
        ((Private, RedisLockMixin), {}, r"before Private: class V\(RedisLockMixin, ...\)"),
    ],
)
def test_an_order_that_would_take_no_lock_is_refused_where_the_class_is_defined(
    bases: tuple[type, ...], members: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"would take no lock.*{advice}"):
        type("V", bases, {"lock_name": "x"} | members)


def test_the_mixin_for_api_views_is_refused_on_another_view() -> None:
    class V(RedisLockAPIMixin, View):
        lock_name = "x"

    with pytest.raises(ImproperlyConfigured, match="write RedisLockMixin instead"):
        V.as_view()


def done(request: HttpRequest, **kwargs: Any) -> HttpResponse:
    return HttpResponse("done")


class Posting(View):
    post = staticmethod(done)


@method_decorator(login_required, name="dispatch")
class UnderLogin(RedisLockMixin, Posting):
    lock_name = "x"


@pytest.mark.parametrize(
    "bases",
    [
        (Cooperative, RedisLockMixin, Posting),
        (TemplateView, RedisLockMixin, Posting),
        (UnderLogin,),
    ],
)
def test_an_order_that_reaches_the_lock_takes_it(bases: tuple[type, ...], name: str) -> None:
    view: Any = type("V", bases, {"lock_name": "{pk}", "lock_wait": 0})
    request = RequestFactory().post("/")
    request.user = type("User", (), {"is_authenticated": True})()  # type: ignore[assignment]
    with held(name):
        assert 423 == view.as_view()(request, pk=name).status_code
    assert 200 == view.as_view()(request, pk=name).status_code


LOCKED = redis_lock("x")


def view_of(name: str, *bases: type, **members: Any) -> Any:
    return type(name, bases, {"lock_name": "x", **members}).as_view()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("view", "advice"),
    [
        (
            view_of("LockFirst", RedisLockMixin, LoginRequiredMixin, Posting),
            "class LockFirst(LoginRequiredMixin, RedisLockMixin, ...)",
        ),
        (
            view_of(
                "V",
                RedisLockMixin,
                PermissionRequiredMixin,
                View,
                permission_required="x",
                post=done,
            ),
            "class V(PermissionRequiredMixin, RedisLockMixin, ...)",
        ),
        (view_of("V", RedisLockMixin, APIView, post=done), "class V(RedisLockAPIMixin, ...)"),
        (
            under(LOCKED, method="dispatch", base=APIView),
            "Use RedisLockAPIMixin in place of redis_lock('x')",
        ),
        (
            under(LOCKED, method="dispatch", base=type("Login", (LoginRequiredMixin, View), {})),
            "Decorate the handlers, such as post(), with redis_lock('x')",
        ),
        *(
            (view, "below the decorator that checks permissions")
            for view in (
                under(LOCKED, login_required, method="dispatch", base=Posting),
                under([LOCKED, never_cache, login_required], method="dispatch", base=Posting),
                under(LOCKED, login_required, method="post", base=Posting),
                LOCKED(login_required(done)),
            )
        ),
        (LOCKED(api_view(["POST"])(done)), "Write redis_lock('x') below @api_view"),
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
        view_of("AccessFirst", UserPassesTestMixin, RedisLockMixin, Posting),
        under(LOCKED, method="post", base=type("Login", (LoginRequiredMixin, Posting), {})),
        user_passes_test(bool)(LOCKED(done)),
        api_view(["POST"])(LOCKED(done)),
        Prefixes.as_view({"post": "create"}),
        Default.as_view(),
        UnderLogin.as_view(),
        under(login_required, LOCKED, method="dispatch", base=Posting),
        under([never_cache, login_required, LOCKED], method="dispatch", base=Posting),
        under(login_required, LOCKED, method="post", base=Posting),
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


# Names that cannot be


@redis_lock(lambda request, name: name, wait=0)
def by_callable(request: HttpRequest, name: str) -> HttpResponse:
    return run(request, name)


NAMING = BY_THEMSELVES | BLOCKS | APIS | {"callable": by_callable}


@pytest.mark.parametrize("kind", NAMING)
@pytest.mark.parametrize(
    "text", ["a" * 600, "a\0b", "\N{SNOWMAN}" * 200], ids=["long", "NUL", "wide"]
)
def test_a_name_in_the_url_that_cannot_be_one_is_not_found(
    kind: str, text: str, settings: Any, redis_server: object
) -> None:
    settings.MIDDLEWARE = ["redis_locks.middleware.lock_responses"]
    route(NAMING[kind], "f/<path:name>")
    with doing(HttpResponse):
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


# What is refused in the URLconf


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({}, "get_lock_name"),
        ({"lock_name": "{pk!r}"}, "no conversion"),
        ({"lock_name": "x", "lock_wait": -1}, "wait must be"),
        ({"lock_name": "x", "lock_methods": "POST"}, "lock_methods"),
        ({"lock_name": "x", "lock_methods": ["post"]}, "lock_methods"),
        (
            {"lock_name": "x", "lock_methods": ["POST", "FETCH"]},
            "'FETCH', which never takes the lock",
        ),
        (
            {"lock_name": "x", "lock_actions": ["post"]},
            "lock_actions=.* this view has lock_methods",
        ),
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


def test_a_misspelled_attribute_is_refused() -> None:
    with pytest.raises(
        ImproperlyConfigured, match="Misspelled: lock_wiat has no effect: write lock_"
    ):
        view_of("Misspelled", RedisLockMixin, View, lock_wiat=0)
