"""What clients get where a view does not get its lock: status, Retry-After, and a form that they take."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from typing import Any

import pytest
from django.db import connections
from django.db.transaction import atomic, on_commit
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory, modify_settings, override_settings
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.decorators import action, api_view, renderer_classes
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from redis_locks import (
    DeadlockDetected,
    Lock,
    LockBackendError,
    LockError,
    LockLost,
    LockNotAvailable,
    RedisLockMixin,
    TooMuchContention,
    redis_lock,
)
from redis_locks.integrations.rest_framework import RedisLockAPIMixin, exception_handler
from redis_locks.testing import override_locks
from redis_locks.testing.server import EmbeddedServer
from tests import elsewhere
from tests.ledger.models import Counter

pytestmark = pytest.mark.urls(__name__)

NOWHERE = "unix:///nonexistent/redis.sock"
LOCKED = "Somebody else is changing this at the moment. Please try again."
UNAVAILABLE = "This cannot be done safely at the moment. Please try again in a while."
ERRORS: dict[str, Exception] = {
    "deadlock": DeadlockDetected("a circle"),
    "contention": TooMuchContention("others were quicker"),
    "lost": LockLost("too late"),
    "other": KeyError("x"),
}


@redis_lock("x", wait=0)
def function(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


@redis_lock("x", wait=0)
async def coroutine(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


def block(request: HttpRequest) -> HttpResponse:
    with redis_lock("x", wait=0):
        return HttpResponse("done")


async def async_block(request: HttpRequest) -> HttpResponse:
    async with redis_lock("x", wait=0):
        return HttpResponse("done")


class Mixed(RedisLockMixin, View):
    lock_name = "x"
    lock_wait = 0
    lock_methods = ["GET", "POST"]

    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("done")


class AsyncMixed(RedisLockMixin, View):
    lock_name = "x"
    lock_wait = 0
    lock_methods = ["GET", "POST"]

    async def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("done")


@method_decorator(redis_lock("x", wait=0), name="dispatch")
class Dispatch(View):
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("done")


def failing(request: HttpRequest, kind: str) -> HttpResponse:
    raise ERRORS[kind]


class PageRenderer(BaseRenderer):
    media_type = "text/html"
    format = "page"

    def render(self, data: Any, *_: object) -> str:
        return f"by the framework: {data['detail']}"


RENDERERS = [JSONRenderer, PageRenderer]


@redis_lock("x", wait=0)
@api_view(["GET"])
@renderer_classes(RENDERERS)
def locked_api(request: Request) -> Response:
    return Response("done")


@api_view(["GET"])
@renderer_classes(RENDERERS)
@redis_lock("x", wait=0, conflict_status=409)
def api_locked(request: Request) -> Response:
    return Response("done")


def unreleased(request: HttpRequest) -> HttpResponse:
    """Do the work, and lose the server before the release."""
    with EmbeddedServer(use_environment=False) as server, Lock("x", using=server.url, wait=0):
        server.kill()
    return HttpResponse("done")


def uncommitted(request: HttpRequest) -> HttpResponse:
    with EmbeddedServer(use_environment=False) as server:
        hold = Lock("x", using=server.url, wait=0).acquire()
        assert hold is not None
        server.kill()
        try:
            hold.commit([("SET", "x", "done")])
        finally:
            hold.drop()
    return HttpResponse("done")


def committed(request: HttpRequest) -> HttpResponse:
    """Commit the work; a hook takes a lock after that."""
    with atomic():
        Counter.objects.create(name="done")
        on_commit(lambda: block(request))
    return HttpResponse("done")


@api_view(["GET"])
@renderer_classes(RENDERERS)
def api_committed(request: Request) -> Response:
    committed(request)
    return Response("done")


class HandledCommit(APIView):
    renderer_classes = RENDERERS

    def get_exception_handler(self) -> Any:
        return exception_handler

    def get(self, request: Request) -> Response:
        committed(request)
        return Response("done")


@api_view(["GET"])
@renderer_classes(RENDERERS)
def api_block(request: Request) -> Response:
    with redis_lock("x", wait=0):
        return Response("done")


class Set(ViewSet):
    renderer_classes = RENDERERS

    @action(detail=True)
    @redis_lock("x", wait=0)
    def look(self, request: Request, pk: str) -> Response:
        return Response("done")


@method_decorator(redis_lock("x", wait=0), name="dispatch")
class DispatchAPI(APIView):
    renderer_classes = RENDERERS

    def get(self, request: Request) -> Response:
        return Response("done")


class MixedAPI(RedisLockMixin, APIView):
    """With the mixin for plain views."""

    renderer_classes = RENDERERS
    lock_name = "x"
    lock_wait = 0
    lock_methods = ["GET"]

    def get(self, request: Request) -> Response:
        return Response("done")


class LockedAPI(RedisLockAPIMixin, APIView):
    renderer_classes = RENDERERS
    lock_name = "x"
    lock_wait = 0
    lock_methods = ["GET"]

    def get(self, request: Request) -> Response:
        return Response("done")


class HandledAPI(APIView):
    renderer_classes = RENDERERS

    def get_exception_handler(self) -> Any:
        return exception_handler

    def get(self, request: Request) -> Response:
        with redis_lock("x", wait=0):
            return Response("done")


router = SimpleRouter()
router.register("set", Set, basename="set")
LOCKED_VIEWS: dict[str, Any] = {
    "function": function,
    "coroutine": coroutine,
    "block": block,
    "async-block": async_block,
    "mixin": Mixed.as_view(),
    "async-mixin": AsyncMixed.as_view(),
    "dispatch": Dispatch.as_view(),
    "as-view": redis_lock("x", wait=0)(View.as_view()),
}
BY_THEMSELVES = [kind for kind in LOCKED_VIEWS if "block" not in kind and kind != "as-view"]
API_VIEWS: dict[str, Any] = {
    "locked-api": locked_api,
    "api-locked": api_locked,
    "api-block": api_block,
    "dispatch-api": DispatchAPI.as_view(),
    "as-view-api": redis_lock("x", wait=0)(HandledAPI.as_view()),
    "mixed-api": MixedAPI.as_view(),
    "mixin-api": LockedAPI.as_view(),
    "handled-api": HandledAPI.as_view(),
}
UNCONFIRMED: dict[str, Any] = {"unreleased": unreleased, "uncommitted": uncommitted}
COMMITTED: dict[str, Any] = {
    "committed": committed,
    "locked-committed": redis_lock("y")(committed),
    "api-committed": api_committed,
    "handled-committed": HandledCommit.as_view(),
}
urlpatterns = [
    *(
        path(f"{kind}/", view)
        for kind, view in (LOCKED_VIEWS | API_VIEWS | UNCONFIRMED | COMMITTED).items()
    ),
    path("failing/<str:kind>/", failing),
    path("", include(router.urls)),
]
with_middleware = modify_settings(MIDDLEWARE={"append": "redis_locks.middleware.lock_responses"})
at_nowhere = override_settings(REDIS_LOCKS={"CONNECTION": NOWHERE})


def get(path: str, accept: str = "*/*") -> Any:
    return Client(raise_request_exception=False).get(path, headers={"Accept": accept})


def aget(path: str, accept: str = "*/*") -> Any:
    client = AsyncClient(raise_request_exception=False)
    return asyncio.run(client.get(path, headers={"Accept": accept}))


ASK = [pytest.param(get, id="wsgi"), pytest.param(aget, id="asgi")]


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("kind", [kind for kind in LOCKED_VIEWS if kind != "as-view"])
@pytest.mark.parametrize(
    ("accept", "media_type", "text"),
    [
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text/html", f"<p>{LOCKED}</p>"),
        ("application/json", "application/json", f'{{"detail": "{LOCKED}"}}'),
        ("*/*", "text/plain", LOCKED),
        ("image/png", "text/plain", LOCKED),
    ],
)
@override_locks("busy")
@with_middleware
def test_contention_is_answered_in_the_form_that_the_client_takes(
    ask: Any, kind: str, accept: str, media_type: str, text: str
) -> None:
    response = ask(f"/{kind}/", accept)
    assert (423, "10") == (response.status_code, response["Retry-After"])
    assert f"{media_type}; charset=utf-8" == response["Content-Type"]
    assert "Accept" in response["Vary"]
    assert text in response.content.decode()


@override_locks("busy")
def test_who_sends_json_gets_json() -> None:
    client = Client()
    view = redis_lock("x", wait=0)(lambda request: HttpResponse())
    request = RequestFactory().post("/", {}, content_type="application/json")
    assert "application/json; charset=utf-8" == view(request)["Content-Type"]
    assert 423 == client.get("/function/").status_code


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("kind", [*LOCKED_VIEWS, *API_VIEWS])
@at_nowhere
@with_middleware
def test_a_server_that_cannot_be_asked_is_answered_with_503(ask: Any, kind: str) -> None:
    response = ask(f"/{kind}/", "application/json")
    if kind == "as-view":  # which has no GET, and so takes no lock
        assert 405 == response.status_code
        return
    assert (503, "5") == (response.status_code, response["Retry-After"])
    assert {"detail": UNAVAILABLE} == response.json()


@pytest.mark.parametrize("kind", BY_THEMSELVES)
@at_nowhere
def test_locked_views_answer_without_the_middleware(kind: str) -> None:
    assert 503 == get(f"/{kind}/").status_code
    with override_locks("busy"):
        assert 423 == get(f"/{kind}/").status_code


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("kind", UNCONFIRMED)
@with_middleware
def test_a_client_is_not_asked_back_if_the_work_may_be_done(ask: Any, kind: str) -> None:
    response = ask(f"/{kind}/")
    assert 500 == response.status_code
    assert "Retry-After" not in response
    assert isinstance(response.exc_info[1], LockBackendError)
    assert exception_handler(response.exc_info[1], {}) is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("atomic_requests", [False, True])
@pytest.mark.parametrize("kind", COMMITTED)
@with_middleware
def test_a_client_is_not_asked_back_for_contention_after_commit(
    kind: str, atomic_requests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", atomic_requests)
    with elsewhere.held(Lock("x")):
        require_committed(get(f"/{kind}/"), LockNotAvailable)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", [kind for kind in COMMITTED if "locked" not in kind])
@at_nowhere
@with_middleware
def test_a_client_is_not_asked_back_for_a_server_that_is_down_after_commit(kind: str) -> None:
    require_committed(get(f"/{kind}/"), LockBackendError)


def require_committed(response: Any, error: type[LockError]) -> None:
    assert Counter.objects.filter(name="done").exists()
    assert 500 == response.status_code
    assert "Retry-After" not in response
    assert isinstance(response.exc_info[1], error)
    assert response.exc_info[1].may_be_done


@at_nowhere
def test_without_the_middleware_a_block_is_an_error_of_the_view() -> None:
    assert 500 == get("/block/").status_code


@pytest.mark.parametrize(
    ("kind", "status"), [("deadlock", 423), ("contention", 423), ("lost", 500), ("other", 500)]
)
@with_middleware
def test_the_middleware_answers_what_a_later_request_may_not_meet(kind: str, status: int) -> None:
    response = get(f"/failing/{kind}/")
    assert status == response.status_code
    assert (status == 423) == ("Retry-After" in response)


@override_locks("busy")
@with_middleware
@pytest.mark.parametrize("kind", [*API_VIEWS, "set/7/look"])
def test_views_of_the_framework_use_its_renderers(kind: str) -> None:
    response = get(f"/{kind}/", "application/json")
    assert 409 if kind == "api-locked" else 423 == response.status_code
    assert "10" == response["Retry-After"]
    assert "application/json" == response["Content-Type"]
    assert {"detail": LOCKED} == response.json()
    page = get(f"/{kind}/", "text/html")
    assert "text/html; charset=utf-8" == page["Content-Type"]
    assert f"by the framework: {LOCKED}" == page.content.decode()


# Templates


def templates(**files: str) -> list[dict[str, Any]]:
    sources = {f"redis_locks/{name.replace('_', '.')}": text for name, text in files.items()}
    loaders = [("django.template.loaders.locmem.Loader", sources)]
    options = {"loaders": loaders}
    return [{"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": options}]


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("kind", BY_THEMSELVES)
@override_locks("busy")
def test_a_project_has_templates_of_its_own(ask: Any, kind: str) -> None:
    text = "{{ status }} {{ code }} {{ retry_after }}"
    with override_settings(TEMPLATES=templates(locked_html=text)):
        assert "423 locked 10" == ask(f"/{kind}/", "text/html").content.decode()
        assert LOCKED in ask(f"/{kind}/", "text/plain").content.decode()


@override_locks("busy")
def test_a_project_without_templates_gets_answers_too() -> None:
    with override_settings(TEMPLATES=[]):
        assert LOCKED in get("/function/", "text/html").content.decode()


@override_locks("busy")
def test_what_is_wrong_in_a_template_of_the_project_is_not_hidden() -> None:
    with override_settings(TEMPLATES=templates(locked_html="{% extends 'nowhere.html' %}")):
        assert 500 == get("/function/", "text/html").status_code


# Which requests take the lock


@pytest.mark.parametrize("ask", ["head", "options"])
@pytest.mark.parametrize("kind", [*BY_THEMSELVES, "locked-api", "api-locked", "dispatch-api"])
@override_locks("busy")
def test_head_and_options_take_no_lock(ask: str, kind: str) -> None:
    assert 423 > getattr(Client(), ask)(f"/{kind}/").status_code


@pytest.mark.parametrize(
    "kind",
    ["mixin", "async-mixin", "dispatch", "locked-api", "dispatch-api", "as-view-api", "mixin-api"],
)
@override_locks("busy")
def test_a_method_that_the_view_lacks_gets_405(kind: str) -> None:
    assert 405 == Client().post(f"/{kind}/").status_code
    assert 405 == Client().put(f"/{kind}/").status_code


@override_locks("busy")
def test_a_helper_that_gets_a_request_takes_the_lock_for_any_method() -> None:
    helper = redis_lock("x", wait=0, on_conflict="skip")(lambda request: "done")
    assert None is helper(RequestFactory().head("/"))


# on_unavailable


def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


def plain() -> str:
    return "done"


@at_nowhere
def test_what_is_no_view_raises() -> None:
    with pytest.raises(LockBackendError):
        redis_lock("x")(plain)()
    for on_conflict in ("raise", "skip", "retry"):
        with pytest.raises(LockBackendError):
            redis_lock("x", on_conflict=on_conflict)(view)(RequestFactory().get("/"))  # type: ignore[arg-type]


@at_nowhere
def test_a_lock_says_what_happens_when_its_server_cannot_be_asked() -> None:
    request = RequestFactory().get("/")
    with pytest.raises(LockBackendError):
        redis_lock("x", on_unavailable="raise")(view)(request)
    with pytest.raises(LockBackendError):
        Mixed.as_view(lock_on_unavailable="raise")(request)
    answered = redis_lock("x", on_conflict="raise", on_unavailable="respond")(view)(request)
    assert 503 == answered.status_code
    assert 200 == redis_lock("x", on_unavailable="proceed")(view)(request).status_code
    assert 200 == Mixed.as_view(lock_on_unavailable="proceed")(request).status_code


@pytest.mark.parametrize(("value", "status"), [("raise", 500), ("respond", 503), ("proceed", 200)])
@pytest.mark.parametrize("kind", BY_THEMSELVES)
def test_the_setting_is_for_all_locks(kind: str, value: str, status: int) -> None:
    entries = {"CONNECTION": NOWHERE, "ON_UNAVAILABLE": value}
    with override_settings(REDIS_LOCKS=entries):
        assert status == get(f"/{kind}/").status_code


def test_a_mixin_has_a_hook_for_a_server_that_cannot_be_asked() -> None:
    class Hooked(Mixed):
        lock_using = NOWHERE

        def lock_unavailable(self, error: LockBackendError) -> HttpResponse:
            return HttpResponse(type(error).__name__, status=500)

    assert b"LockBackendError" == Hooked.as_view()(RequestFactory().get("/")).content


# What errors say


def test_the_text_of_contention_names_nobody(name: str) -> None:
    with elsewhere.held(Lock(name, label="the secret job")):
        for wait in (0, 0.01):
            with pytest.raises(LockNotAvailable) as raised, Lock(name, wait=wait):
                pass
            error = raised.value
            for private in (
                socket.gethostname(),
                f"pid {os.getpid()}",
                threading.current_thread().name,
                "ThreadPool",
                "the secret job",
            ):
                assert private not in f"{error} {error.args} {error!r}"
            assert "the secret job" in str(error.holder)
            assert "the secret job" in "".join(error.__notes__)
