"""What clients get where a view gets no lock: status, Retry-After, and a form that they take."""

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

from redis_locks import (
    DeadlockDetected,
    Lock,
    LockBackendError,
    LockLost,
    LockNotAvailable,
    RedisLockMixin,
    TooMuchContention,
    redis_lock,
)
from redis_locks.integrations.rest_framework import exception_handler
from redis_locks.testing import override_locks
from redis_locks.testing.server import EmbeddedServer
from tests.django import locked_views
from tests.django.locked_views import (
    APIS,
    BLOCKS,
    BY_THEMSELVES,
    UNLOCKED,
    Plain,
    block,
    doing,
    mixed,
    run,
    urls,
)
from tests.ledger.models import Counter
from tests.support.parties import held
from tests.support.world import granted

pytestmark = pytest.mark.urls(__name__)

NOWHERE = "unix:///nonexistent/redis.sock"
LOCKED = "Somebody else is changing this at the moment. Please try again."
UNAVAILABLE = "This cannot be done safely at the moment. Please try again in a while."
EACH = ["function", "coroutine", "dispatch", "mixin", "async-mixin"]
"""Those of the views that lock by themselves which take different ways."""

urlpatterns = locked_views.urlpatterns + urls(
    {
        "outer-plain": redis_lock("outer:{name}")(run),
        "with-status": locked_views.api(redis_lock("{name}", wait=0, conflict_status=409)(run)),
    }
)
with_middleware = modify_settings(MIDDLEWARE={"append": "redis_locks.middleware.lock_responses"})
at_nowhere = override_settings(REDIS_LOCKS={"CONNECTION": NOWHERE})


def get(kind: str, accept: str = "*/*") -> Any:
    client = Client(raise_request_exception=False)
    return client.get(f"/{kind}/x/", headers={"Accept": accept})


def aget(kind: str, accept: str = "*/*") -> Any:
    client = AsyncClient(raise_request_exception=False)
    return asyncio.run(client.get(f"/{kind}/x/", headers={"Accept": accept}))


ASK = pytest.mark.parametrize("ask", [pytest.param(get, id="wsgi"), pytest.param(aget, id="asgi")])


@ASK
@pytest.mark.parametrize("kind", [*EACH, *BLOCKS])
@pytest.mark.parametrize(
    ("accept", "media_type", "text"),
    [
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text/html", f"<p>{LOCKED}</p>"),
        ("application/json", "application/json", f'{{"detail": "{LOCKED}"}}'),
        ("image/png", "text/plain", LOCKED),
    ],
)
@override_locks("busy")
@with_middleware
def test_contention_is_answered_in_the_form_that_the_client_takes(
    ask: Any, kind: str, accept: str, media_type: str, text: str
) -> None:
    response = ask(kind, accept)
    assert (423, "10") == (response.status_code, response["Retry-After"])
    assert f"{media_type}; charset=utf-8" == response["Content-Type"]
    assert "Accept" in response["Vary"]
    assert text in response.content.decode()


@ASK
@pytest.mark.parametrize("kind", [*BY_THEMSELVES, *BLOCKS, *APIS])
@at_nowhere
@with_middleware
def test_a_server_that_cannot_be_asked_is_answered_with_503(ask: Any, kind: str) -> None:
    response = ask(kind, "application/json")
    assert (503, "5") == (response.status_code, response["Retry-After"])
    assert {"detail": UNAVAILABLE} == response.json()


@pytest.mark.parametrize("kind", EACH)
@at_nowhere
def test_locked_views_answer_without_the_middleware(kind: str) -> None:
    assert 503 == get(kind).status_code
    with override_locks("busy"):
        assert 423 == get(kind).status_code


def unreleased(name: str) -> HttpResponse:
    """Do the work, and lose the server before the release."""
    with EmbeddedServer(use_environment=False) as server, Lock(name, using=server.url, wait=0):
        server.kill()
    return HttpResponse("done")


def uncommitted(name: str) -> HttpResponse:
    with EmbeddedServer(use_environment=False) as server:
        hold = granted(Lock(name, using=server.url, wait=0).acquire())
        server.kill()
        try:
            hold.commit([("SET", name, "done")])
        finally:
            hold.drop()
    return HttpResponse("done")


def committed(name: str) -> HttpResponse:
    """Commit the work; a hook takes a lock after that."""
    with atomic():
        Counter.objects.create(name="done")
        on_commit(lambda: block(RequestFactory().get("/"), name))
    return HttpResponse("done")


def require_no_invitation(response: Any, error: type[Exception]) -> None:
    """The client is not asked to come back."""
    assert 500 == response.status_code
    assert "Retry-After" not in response
    assert isinstance(response.exc_info[1], error)
    assert response.exc_info[1].may_be_done


@ASK
@pytest.mark.parametrize("task", [unreleased, uncommitted])
@with_middleware
def test_a_client_is_not_asked_back_if_the_work_may_be_done(ask: Any, task: Any) -> None:
    with doing(task):
        response = ask("plain")
    require_no_invitation(response, LockBackendError)
    assert exception_handler(response.exc_info[1], {}) is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("atomic_requests", [False, True])
@pytest.mark.parametrize("kind", [*UNLOCKED, "outer-plain"])
@with_middleware
def test_a_client_is_not_asked_back_after_commit(
    kind: str, atomic_requests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", atomic_requests)
    with doing(committed), held("x"):
        require_no_invitation(get(kind), LockNotAvailable)
    assert Counter.objects.filter(name="done").exists()
    if not atomic_requests and kind in UNLOCKED:
        Counter.objects.all().delete()
        with doing(committed), at_nowhere:
            require_no_invitation(get(kind), LockBackendError)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DeadlockDetected("a circle"), 423),
        (TooMuchContention("others were quicker"), 423),
        (LockLost("too late"), 500),
        (KeyError("x"), 500),
    ],
)
@with_middleware
def test_the_middleware_answers_what_a_later_request_may_not_meet(
    error: Exception, status: int
) -> None:
    def fail(name: str) -> HttpResponse:
        raise error

    with doing(fail):
        response = get("plain")
    assert (status, status == 423) == (response.status_code, "Retry-After" in response)


@override_locks("busy")
@with_middleware
@pytest.mark.parametrize("kind", [*APIS, "with-status"])
def test_views_of_the_framework_use_its_renderers(kind: str) -> None:
    response = get(kind, "application/json")
    assert (409 if kind == "with-status" else 423) == response.status_code
    assert "10" == response["Retry-After"]
    assert "application/json" == response["Content-Type"]
    assert {"detail": LOCKED} == response.json()
    page = get(kind, "text/html")
    assert "text/html; charset=utf-8" == page["Content-Type"]
    assert f"by the framework: {LOCKED}" == page.content.decode()


@ASK
@pytest.mark.parametrize("kind", EACH)
@override_locks("busy")
def test_a_project_has_templates_of_its_own(ask: Any, kind: str) -> None:
    source = {"redis_locks/locked.html": "{{ status }} {{ code }} {{ retry_after }}"}
    options = {"loaders": [("django.template.loaders.locmem.Loader", source)]}
    engine = {"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": options}
    with override_settings(TEMPLATES=[engine]):
        assert "423 locked 10" == ask(kind, "text/html").content.decode()
        assert LOCKED in ask(kind, "text/plain").content.decode()


# Which requests take the lock


@pytest.mark.parametrize("ask", ["head", "options"])
@pytest.mark.parametrize("kind", [*EACH, "api-below", "api-above", "api-dispatch"])
@override_locks("busy")
def test_head_and_options_take_no_lock(ask: str, kind: str) -> None:
    assert 423 > getattr(Client(), ask)(f"/{kind}/x/").status_code


@pytest.mark.parametrize("kind", ["mixin", "async-mixin", "dispatch", *locked_views.apis()])
@override_locks("busy")
def test_a_method_that_the_view_lacks_gets_405(kind: str) -> None:
    assert 405 == Client().put(f"/{kind}/x/").status_code


@override_locks("busy")
def test_a_helper_that_gets_a_request_takes_the_lock_for_any_method() -> None:
    helper = redis_lock("x", wait=0, on_conflict="skip")(lambda request: "done")
    assert None is helper(RequestFactory().head("/"))


# on_unavailable


def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse("done")


@at_nowhere
def test_what_is_no_view_raises() -> None:
    with pytest.raises(LockBackendError):
        redis_lock("x")(lambda: "done")()
    for on_conflict in ("raise", "skip", "retry"):
        with pytest.raises(LockBackendError):
            redis_lock("x", on_conflict=on_conflict)(view)(RequestFactory().get("/"))  # type: ignore[arg-type]


@at_nowhere
def test_a_lock_says_what_happens_when_its_server_cannot_be_asked() -> None:
    request = RequestFactory().get("/")

    def of_mixin(**options: Any) -> Any:
        return mixed(RedisLockMixin, Plain, **options).as_view()(request, name="x")

    for raises in (
        lambda: redis_lock("x", on_unavailable="raise")(view)(request),
        lambda: of_mixin(on_unavailable="raise"),
    ):
        with pytest.raises(LockBackendError):
            raises()
    answered = redis_lock("x", on_conflict="raise", on_unavailable="respond")(view)(request)
    assert 503 == answered.status_code
    with doing(HttpResponse):
        assert 200 == redis_lock("x", on_unavailable="proceed")(view)(request).status_code
        assert 200 == of_mixin(on_unavailable="proceed").status_code


@pytest.mark.parametrize(("value", "status"), [("raise", 500), ("respond", 503), ("proceed", 200)])
@pytest.mark.parametrize("kind", EACH)
def test_the_setting_is_for_all_locks(kind: str, value: str, status: int) -> None:
    entries = {"CONNECTION": NOWHERE, "ON_UNAVAILABLE": value}
    with override_settings(REDIS_LOCKS=entries), doing(HttpResponse):
        assert status == get(kind).status_code


def test_a_mixin_has_a_hook_for_a_server_that_cannot_be_asked() -> None:
    class Hooked(mixed(RedisLockMixin, Plain, using=NOWHERE)):  # type: ignore[misc]
        def lock_unavailable(self, error: LockBackendError) -> HttpResponse:
            return HttpResponse(type(error).__name__, status=500)

    assert b"LockBackendError" == Hooked.as_view()(RequestFactory().get("/"), name="x").content


# What errors say


def test_the_text_of_contention_names_nobody(name: str) -> None:
    with held(name, label="the secret job"):
        for wait in (0, 0.01):
            with pytest.raises(LockNotAvailable) as raised, Lock(name, wait=wait):
                pass
            error = raised.value
            for private in (
                socket.gethostname(),
                f"pid {os.getpid()}",
                threading.current_thread().name,
                "the secret job",
            ):
                assert private not in f"{error} {error.args} {error!r}"
            assert "the secret job" in str(error.holder)
            assert "the secret job" in "".join(error.__notes__)
