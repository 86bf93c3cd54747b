"""Locked views: `redis_lock` on a view, and `RedisLockMixin`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import AsyncClient, AsyncRequestFactory, Client, RequestFactory, override_settings
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from redis_locks import Lock, LockBackendError, LockNotAvailable, Semaphore, inspection
from redis_locks.decorators import redis_lock
from redis_locks.responses import retry_after
from redis_locks.views import RedisLockMixin
from tests import elsewhere
from tests.contract.world import Observer, Threads

pytestmark = pytest.mark.urls(__name__)


@pytest.fixture
def server_side(client: redis.Redis) -> Observer:
    return Observer(client)


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
FURTHER: dict[str, Any] = {
    "default": Default.as_view(),
    "async-default": AsyncDefault.as_view(),
    "by-user": ByUser.as_view(),
}
urlpatterns = [path(f"{kind}/<str:name>/", view) for kind, view in (LOCKED | FURTHER).items()]


async def aget(url: str) -> Any:
    return await AsyncClient().get(url)


@pytest.mark.parametrize("kind", LOCKED)
def test_a_view_holds_its_lock_while_it_runs(kind: str, name: str) -> None:
    for response in (Client().get(f"/{kind}/{name}/"), asyncio.run(aget(f"/{kind}/{name}/"))):
        assert (response.status_code, response.content) == (200, b"held")
        assert state(name) == "free"


@pytest.mark.parametrize("kind", LOCKED)
def test_contention_is_answered_with_423_and_retry_after(kind: str, name: str) -> None:
    with elsewhere.held(Lock(name, lease=2.5, renew=False)):
        responses = Client().get(f"/{kind}/{name}/"), asyncio.run(aget(f"/{kind}/{name}/"))
    for response in responses:
        assert (response.status_code, response.reason_phrase) == (423, "Locked")
        assert int(response["Retry-After"]) in {1, 2, 3}
        assert name not in response.content.decode()


def test_the_status_of_contention_can_be_set(name: str) -> None:
    request = RequestFactory().get("/")
    with (
        elsewhere.held(Lock(name)),
        override_settings(REDIS_LOCKS={"CONNECTION": "default", "CONFLICT_STATUS": 409}),
    ):
        assert function(request, name).status_code == 409

        def view(request: HttpRequest) -> HttpResponse: ...

        response = redis_lock(name, wait=0, conflict_status=503)(view)(request)
    assert (response.status_code, 1 <= int(response["Retry-After"]) <= 10) == (503, True)


@pytest.mark.parametrize("kind", LOCKED)
def test_retry_after_counts_the_lease_of_the_holder_and_of_each_waiter(
    kind: str, name: str, server_side: Observer
) -> None:
    world = Threads()
    lock = Lock(name, wait=20)
    with elsewhere.held(Lock(name, lease=5, renew=False)):
        waiters = [world.start(world.block, lock, lambda hold: None) for _ in range(3)]
        server_side.until_waiters(name, 3)
        response = Client().get(f"/{kind}/{name}/")
        # About 5 s, four times over.
        assert 14 <= int(response["Retry-After"]) <= 20
    for waiter in waiters:
        waiter.result(20)


@pytest.mark.parametrize(
    ("lease_left", "waiting", "expected"),
    [
        (2.1, 0, 3),
        (2.1, None, 3),
        (2.5, 3, 10),
        (None, 4, 1),
        (0.0, 4, 1),
        (0.01, 1, 1),
        (10, 9, 60),
    ],
)
def test_retry_after_is_whole_seconds_within_bounds(
    lease_left: float | None, waiting: int | None, expected: int
) -> None:
    error = LockNotAvailable("held", "x", None, lease_left)
    error.waiting = waiting
    assert retry_after(error) == expected


def test_retry_after_of_a_set_of_locks_counts_its_longest_queue(
    name: str, server_side: Observer
) -> None:
    @redis_lock(f"{name}:free", name, wait=0)
    def view(request: HttpRequest) -> HttpResponse: ...

    world = Threads()
    with elsewhere.held(Lock(name, lease=5, renew=False)):
        waiter = world.start(world.block, Lock(name, wait=20), lambda hold: None)
        server_side.until_waiters(name, 1)
        response = view(RequestFactory().get("/"))
    assert (response.status_code, 7 <= int(response["Retry-After"]) <= 10) == (423, True)
    waiter.result(20)


def test_without_an_answer_about_the_queue_retry_after_is_the_holder_s_lease(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_args: object, **_kwargs: object) -> None:
        raise LockBackendError("gone")

    monkeypatch.setattr(inspection, "locks", unreachable)
    monkeypatch.setattr(inspection, "alocks", unreachable)
    with elsewhere.held(Lock(name, lease=2.5, renew=False)):
        for kind in ("function", "coroutine", "mixin", "async-mixin"):
            response = Client().get(f"/{kind}/{name}/")
            assert (response.status_code, int(response["Retry-After"]) <= 3) == (423, True)


def test_a_view_can_raise_or_build_its_own_response(name: str) -> None:
    request = RequestFactory().get("/")

    def view(request: HttpRequest) -> HttpResponse: ...

    def build(error: LockNotAvailable, request: HttpRequest) -> HttpResponse:
        return HttpResponse(f"later, {request.method}", status=418)

    with elsewhere.held(Lock(name)):
        with pytest.raises(LockNotAvailable):
            redis_lock(name, wait=0, on_conflict="raise")(view)(request)
        response = redis_lock(name, wait=0, on_conflict=build)(view)(request)
    assert (response.status_code, response.content) == (418, b"later, GET")


def test_a_request_inside_another_ones_object_makes_a_view_too(name: str) -> None:
    class Wrapped:
        def __init__(self) -> None:
            self._request = RequestFactory().get("/")

    with elsewhere.held(Lock(name)):
        response = redis_lock(name, wait=0)(lambda self, request: HttpResponse())(
            object(), Wrapped()
        )
    assert response.status_code == 423


def test_a_view_keeps_csrf_exempt() -> None:
    exempt = redis_lock("x")(csrf_exempt(function))
    assert exempt.csrf_exempt is True  # type: ignore[attr-defined]
    assert csrf_exempt(redis_lock("x")(function)).csrf_exempt is True  # type: ignore[attr-defined]


def test_the_holder_is_known_by_method_and_path(name: str) -> None:
    seen: list[str | None] = []

    @redis_lock(name)
    def view(request: HttpRequest) -> None:
        with pytest.raises(LockNotAvailable) as raised:
            elsewhere.in_thread(Lock(name, wait=0).__enter__)
        seen.append(raised.value.holder)

    view(RequestFactory().post("/accounts/7/"))
    assert "POST /accounts/7/" in str(seen[0])


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


def test_an_async_view_called_directly_works_too(name: str) -> None:
    response = asyncio.run(coroutine(AsyncRequestFactory().get("/"), name))
    assert response.content == b"held"


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


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"lock_mode": "write"}, "mode must be"),
        ({"lock_capacity": 0}, "capacity must be"),
        ({"lock_capacity": 2, "lock_mode": "shared"}, "no lock_mode"),
    ],
)
def test_a_mixin_that_cannot_share_so_is_refused(attributes: dict[str, Any], words: str) -> None:
    class Wrong(RedisLockMixin, View):
        lock_name = "x"

    with pytest.raises(ImproperlyConfigured, match=words):
        Wrong.as_view(**attributes)
